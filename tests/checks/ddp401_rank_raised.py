"""An exception of one rank's own, of a DataLoader worker, of nobody knows whom; peers that only lost it."""

from ddpdoctor.evidence.job_log import FailureLine, JobLog
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.evidence.source import CodePlace, Condition, Request, SourceCode
from tests.checks import Sick
from tests.rank_ends import CLOSED, FINE, LOST_PEER, PLACE, ended, logged, raised

INNER = RankError(type="ValueError", message="bad sample 9", stack=(PLACE,))
OUTER = RankError(type="ValueError", message="Caught ValueError in DataLoader worker process 0.", cause=INNER)
LEAVES_AT_ONCE = SourceCode(
    places=(CodePlace(file=PLACE.file, line=PLACE.line, function=PLACE.function, calls=("os._exit",)),)
)


def raises(text: str, line: int = 48, test: str = "used > limit", branch: int = 0) -> Request:
    """A statement in train.py, under a test."""
    condition = Condition(line=line - 1, test=test, branch=branch, by_rank="rank" in test)
    return Request(file=PLACE.file, line=line, function="train", text=text, wants="stop", conditions=(condition,))


def printed(*lines: str) -> JobLog:
    """The log of a job that printed these lines and then failed."""
    return JobLog(files=("job.log",), lines=9, failure_lines=tuple(FailureLine(text=line) for line in lines))


ENDED_BY_LAUNCHER = RankExit(exit_code=-15, ended_by_launcher=True)
FULL = raises("raise SystemExit('quota exceeded')")
BAD_RANK = raises("raise SystemExit(f'{used} of {limit}')", 60, "rank == 1")

SICK = (
    Sick(  # Python keeps no SystemExit that was raised; its message is on stderr
        evidence=ended(
            ENDED_BY_LAUNCHER,
            RankExit(exit_code=1),
            job=(printed("quota exceeded"), SourceCode(places=(), requests=(FULL, BAD_RANK))),
        ),
        says="rank 1 left by `raise SystemExit('quota exceeded')` with exit code 1",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"exit_code": 1},
    ),
    Sick(  # a message that only the run knows, under a test that only this rank passes
        evidence=ended(ENDED_BY_LAUNCHER, RankExit(exit_code=1), job=(SourceCode(places=(), requests=(BAD_RANK,)),)),
        says="rank 1 left by `raise SystemExit(f'{used} of {limit}')` with exit code 1",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:60 train",),
        measured={"exit_code": 1},
    ),
    *(
        Sick(  # another statement may have ended it
            evidence=ended(ENDED_BY_LAUNCHER, RankExit(exit_code=1), job=(SourceCode(places=(), requests=requests),)),
            says="rank 1 ended with exit code 1, and nothing that explains it is in the logs given",
            ranks=(1,),
            measured={"exit_code": 1},
        )
        for requests in ((FULL,), (FULL, BAD_RANK), (raises("raise SystemExit(2)", 60, "rank == 0"),))
    ),
    Sick(
        evidence=ended(LOST_PEER, raised("scratch disk is full", "SystemExit"), LOST_PEER),
        says="rank 1 called sys.exit(scratch disk is full)",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"exit_code": 1},
    ),
    Sick(
        evidence=ended(LOST_PEER, raised("3", "SystemExit"), LOST_PEER, job=(LEAVES_AT_ONCE,)),
        says="rank 1 called os._exit(3)",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"exit_code": 1},
    ),
    Sick(  # the others leave because of the first one's error
        evidence=ended(raised("1", "SystemExit"), raised("'label 17'", "KeyError", order=1), raised("1", "SystemExit")),
        says="rank 1 raised KeyError: 'label 17'",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"type": "KeyError", "error": "'label 17'", "exit_code": 1},
    ),
    Sick(  # gathered as an object; no process was to be started
        evidence=ended(raised("Can't pickle local object 'main.<locals>.<lambda>'", "AttributeError"), LOST_PEER),
        says="rank 0 raised AttributeError: Can't pickle local object 'main.<locals>.<lambda>'",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:48 train",),
        measured={
            "type": "AttributeError",
            "error": "Can't pickle local object 'main.<locals>.<lambda>'",
            "exit_code": 1,
        },
    ),
    Sick(
        evidence=ended(LOST_PEER, raised("'label 17'", "KeyError"), LOST_PEER),
        says="rank 1 raised KeyError: 'label 17'",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"type": "KeyError", "error": "'label 17'", "exit_code": 1},
    ),
    Sick(
        evidence=ended(raised("no such file", "OSError", order=3), raised("no such file", "OSError", order=1)),
        says="ranks 0-1 raised OSError: no such file",
        ranks=(0, 1),
        where=("rank 1 /home/me/job/train.py:48 train", "rank 0 /home/me/job/train.py:48 train"),
        measured={"type": "OSError", "error": "no such file", "exit_code": 1},
    ),
    Sick(
        evidence=ended(RankExit(exit_code=1, error=OUTER), LOST_PEER),
        says="rank 0 raised ValueError: bad sample 9",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:48 train",),
        measured={"type": "ValueError", "error": "bad sample 9", "exit_code": 1},
    ),
    Sick(
        evidence=ended(
            LOST_PEER, RankExit(exit_code=1, error=RankError(type="RuntimeError", message=CLOSED, cause=INNER), order=0)
        ),
        says="rank 1 raised ValueError: bad sample 9",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"type": "ValueError", "error": "bad sample 9", "exit_code": 1},
    ),
    Sick(
        evidence=logged(INNER),
        says="a rank that the log does not name raised ValueError: bad sample 9",
        where=("/home/me/job/train.py:48 train",),
        measured={"type": "ValueError", "error": "bad sample 9", "exit_code": None},
    ),
    *(
        Sick(
            evidence=ended(
                ENDED_BY_LAUNCHER,
                RankExit(exit_code=2),
                job=(JobLog(files=("job.log",), lines=9, said=("Step 3", line)),),
            ),
            says=f"rank 1 ended with exit code 2: the program refused its options: {why}",
            ranks=(1,),
            measured={"exit_code": 2},
        )
        for line, why in (
            (
                "train.py: error: argument --arch: invalid choice: 'vit' (choose from 'resnet', 'deit')",
                "argument --arch: invalid choice: 'vit'",
            ),
            ("train.py: error: unrecognized arguments: --epoch 3", "unrecognized arguments: --epoch 3"),
            ("Error: No such option: --epoch", "No such option: --epoch"),
        )
    ),
    Sick(
        evidence=ended(RankExit(exit_code=-15, ended_by_launcher=True), RankExit(exit_code=1)),
        says="rank 1 ended with exit code 1, and nothing that explains it is in the logs given",
        ranks=(1,),
        measured={"exit_code": 1},
    ),
)
HEALTHY = (ended(FINE, FINE),)

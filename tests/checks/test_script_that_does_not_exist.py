"""DDP401 of a script that is not there, by what Python prints; healthy: the same line of a program that a rank starts."""

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.job_log import FailureLine, JobLog
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.evidence.run import CommandRun

SAID = "/usr/bin/python3: can't open file '/job/trian.py': [Errno 2] No such file or directory"
LOG = JobLog(files=("stderr",), lines=1, failure_lines=(FailureLine(text=SAID),))
FOUND = ["the script does not exist: Python found no file /job/trian.py"]


def said_of(*ends: RankExit, command: int = 1) -> list[str]:
    """The messages of DDP401 for ranks that ended so, under a launcher with this exit code."""
    ranks = tuple(RankFacts(rank=rank, host="a", facts=(end,)) for rank, end in enumerate(ends))
    run = CommandRun(command="torchrun trian.py", started_at=1.0, ended_at=2.0, exit_code=command)
    report = diagnose(Evidence(job=(run, LOG), ranks=ranks, about_job=True))
    return [finding.message for finding in report.findings if finding.code == "DDP401"]


def test_the_script_that_no_rank_could_open_is_named() -> None:
    assert said_of(RankExit(exit_code=2), RankExit(exit_code=-15, ended_by_launcher=True)) == FOUND


def test_a_command_that_is_python_itself_has_no_ranks_yet() -> None:
    assert said_of(command=2) == FOUND
    assert said_of(command=0) == []


def test_a_program_that_a_rank_started_is_not_the_script() -> None:
    assert said_of(RankExit(exit_code=0), RankExit(exit_code=0), command=0) == []
    assert FOUND[0] not in said_of(RankExit(exit_code=2), RankExit(exit_code=0))
    own = RankError(type="RuntimeError", message="the preprocessing failed")
    assert said_of(RankExit(exit_code=1, error=own)) == ["rank 0 raised RuntimeError: the preprocessing failed"]

"""`ddpdoctor hang` where every rank waits and no rule knows why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddpdoctor.cli import run
from ddpdoctor.evidence import Evidence, Missing, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.process import ProcessState
from ddpdoctor.evidence.source import CodePlace, SourceCode
from ddpdoctor.host import running_jobs
from ddpdoctor.ranks import own_dumps
from ddpdoctor.ranks.fr_dump_files import read_dump
from ddpdoctor.ranks.target import Target
from ddpdoctor.workflows import hang
from tests.checks.ddp305_collective_called_by_some import IN_BROADCAST
from tests.checks.ddp307_rank_stuck_outside_collective import OWN_LINE
from tests.hangs import IN_BACKWARD, rank
from tests.hangs import hang as hang_of
from tests.ranks.test_fr_dump_files import GLOO

IN_SLEEP = (Frame(file="/job/train.py", line=70, function="save"),)
LOGS_ALONE = """import torch.distributed as dist

dist.init_process_group("nccl")
for batch in loader:
    if dist.get_rank() == 0:
        dist.all_reduce(loss)
    model(batch).backward()
"""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job, whose ranks wait in different collectives, and no source to tell how they came there."""
    job = running_jobs.RunningJob(name="job", world_size=2, targets=(), command="train.py", environ={})
    evidence: Evidence = hang_of(rank(IN_BROADCAST), rank(), seconds=None)
    monkeypatch.setattr(running_jobs, "find_jobs", lambda: running_jobs.FoundProcesses(jobs=(job,), forbidden=()))
    monkeypatch.setattr(hang, "look", lambda _job: evidence)


@pytest.mark.usefixtures("seen")
def test_ranks_that_all_wait_are_not_called_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hang"]) == 3
    assert "undecided: every rank waits for others" in capsys.readouterr().out


def test_a_job_of_which_every_rank_waits_for_a_key_of_the_store_is_not_called_healthy() -> None:
    """Nobody is at work, so that no rank sets the key; a rank that sleeps beside them may set it."""
    asks = CodePlace(file="/job/train.py", line=88, function="validate", calls=("store.wait", "datetime.timedelta"))
    waits, sleeps = rank(OWN_LINE, system_call="poll"), rank(IN_SLEEP, system_call="clock_nanosleep")
    facts = (SourceCode(places=(asks,)),)

    (reason,) = hang.unexplained(hang_of(waits, waits, waits, seconds=None, facts=facts))

    assert reason.startswith("every rank waits for a key of the store")
    assert not hang.unexplained(hang_of(waits, sleeps, waits, seconds=None, facts=facts))


def test_lines_that_lint_suspects_stand_beside_an_undecided_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every rank spins behind a call that its stack no longer shows, in a program with a collective for one rank alone."""
    program = tmp_path / "train.py"
    program.write_text(LOGS_ALONE)
    stack = (Frame(file=str(program), line=7, function="<module>"),)
    evidence = hang_of(rank(IN_BACKWARD[:-2] + stack), rank(IN_BACKWARD[:-2] + stack), seconds=None)
    targets = (Target(rank=0, pid=os.getpid()),)
    job = running_jobs.RunningJob(name="job", world_size=2, targets=targets, command="train.py", environ={})
    monkeypatch.setattr(running_jobs, "find_jobs", lambda: running_jobs.FoundProcesses(jobs=(job,), forbidden=()))
    monkeypatch.setattr(hang, "look", lambda _job: evidence)
    monkeypatch.setattr(hang, "unexplained", lambda _evidence: ("every rank waits for others",))
    assert run(["hang"]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert f"lint suspects {program}:6: DDP730" in said

    with monkeypatch.context() as as_root:  # the job of another user: its stacks may name any file
        as_root.setattr(hang, "other_user", lambda _pid: 1000)
        assert run(["hang"]) == 3
    assert "lint suspects" not in capsys.readouterr().out

    program.write_text(LOGS_ALONE.replace("    if dist.get_rank() == 0:\n    ", ""))
    assert run(["hang"]) == 3
    assert "lint suspects" not in capsys.readouterr().out


@pytest.mark.usefixtures("seen")
def test_a_rule_that_was_asked_for_alone_is_answered_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hang", "--select", "DDP307"]) == 0
    assert "undecided" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        (0, 1, "rank 2 ended with exit code 0 while ranks 0-1 wait in backward"),
        (3, 0, "rank 2 ended with exit code 3"),
    ],
)
def test_a_rank_that_ended_meanwhile_is_known_by_its_exit_code(
    code: int, status: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Regression: the rank that the others wait for was said to be on another host."""
    process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its launcher has not collected it yet
    targets = tuple(Target(rank=number, pid=pid) for number, pid in enumerate((os.getpid(), os.getppid(), process.pid)))
    waiting = tuple(RankFacts(rank=number, host="host-a", facts=rank()) for number in (0, 1))
    ended = Missing(kind=ProcessState.__name__, rank=2, reason=f"process {process.pid} has ended")
    job = running_jobs.RunningJob(name="job", world_size=3, targets=targets, command="train.py", environ={})
    monkeypatch.setattr(running_jobs, "find_jobs", lambda: running_jobs.FoundProcesses(jobs=(job,), forbidden=()))
    monkeypatch.setattr(hang, "examine", lambda *_arguments, **_named: (waiting, (ended,)))
    try:
        assert run(["hang"]) == status
    finally:
        process.wait()
    said = " ".join(capsys.readouterr().out.split())
    assert message in said
    assert "another host" not in said


@pytest.mark.parametrize(("program", "judged"), [("/home/me/job/a.py", True), ("/home/me/job/other.py", False)])
def test_a_dump_of_another_program_is_not_the_jobs(
    program: str, judged: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Regression: two jobs of one user dump to one path, and one was blamed for what the other did."""
    targets = (Target(rank=0, pid=os.getpid()), Target(rank=1, pid=os.getppid()))
    stack = (*IN_BACKWARD[:-2], Frame(file=program, line=7, function="<module>"))
    waiting = tuple(RankFacts(rank=number, host="host-a", facts=rank(stack)) for number in (0, 1))
    dumps = [(number, read_dump(GLOO / f"rank_{number}").record) for number in (0, 1)]
    job = running_jobs.RunningJob(name="job", world_size=2, targets=targets, command="train.py", environ={})
    monkeypatch.setattr(running_jobs, "find_jobs", lambda: running_jobs.FoundProcesses(jobs=(job,), forbidden=()))
    monkeypatch.setattr(hang, "examine", lambda *_arguments, **_named: (waiting, ()))
    monkeypatch.setattr(own_dumps, "collect", lambda *_arguments: iter(dumps))
    assert run(["hang"]) == (1 if judged else 3)
    assert ("DDP301" in capsys.readouterr().out) is judged


def test_a_job_that_ended_meanwhile_is_not_called_healthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Regression: the last line was "no findings (0 checks ran, 8 skipped)"."""
    target = Target(rank=0, pid=os.getpid())
    ended = Missing(kind=ProcessState.__name__, rank=0, reason="process 7 has ended")
    job = running_jobs.RunningJob(name="job", world_size=1, targets=(target,), command="train.py", environ={})
    monkeypatch.setattr(running_jobs, "find_jobs", lambda: running_jobs.FoundProcesses(jobs=(job,), forbidden=()))
    monkeypatch.setattr(hang, "examine", lambda *_arguments, **_named: ((), (ended,)))
    assert run(["hang"]) == 3
    said = capsys.readouterr().out
    assert f"undecided: {hang.ENDED}" in said
    assert "no findings" not in said

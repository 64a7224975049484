"""`ddpdoctor hang` where every rank waits and no rule knows why."""

from __future__ import annotations

import os

import pytest

from ddpdoctor.cli import run
from ddpdoctor.evidence import Evidence, Missing
from ddpdoctor.evidence.process import ProcessState
from ddpdoctor.host import running_jobs
from ddpdoctor.ranks.snapshot import Target
from ddpdoctor.workflows import hang
from tests.checks.ddp305_collective_called_by_some import IN_BROADCAST
from tests.hangs import hang as hang_of
from tests.hangs import rank


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job, whose ranks wait in different collectives, and no source to tell how they came there."""
    job = running_jobs.RunningJob(name="job", world_size=2, targets=(), command="train.py", environ={})
    evidence: Evidence = hang_of(rank(IN_BROADCAST), rank(), seconds=None)
    monkeypatch.setattr(running_jobs, "find_jobs", lambda: running_jobs.Found(jobs=(job,), forbidden=()))
    monkeypatch.setattr(hang, "look", lambda _job: evidence)


@pytest.mark.usefixtures("seen")
def test_ranks_that_all_wait_are_not_called_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hang"]) == 3
    assert "undecided: every rank waits for others" in capsys.readouterr().out


@pytest.mark.usefixtures("seen")
def test_a_rule_that_was_asked_for_alone_is_answered_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hang", "--select", "DDP307"]) == 0
    assert "undecided" not in capsys.readouterr().out


def test_a_job_that_ended_meanwhile_is_not_called_healthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Regression: the last line was "no findings (0 checks ran, 8 skipped)"."""
    target = Target(rank=0, pid=os.getpid())
    ended = Missing(kind=ProcessState.__name__, rank=0, reason="process 7 has ended")
    job = running_jobs.RunningJob(name="job", world_size=1, targets=(target,), command="train.py", environ={})
    monkeypatch.setattr(running_jobs, "find_jobs", lambda: running_jobs.Found(jobs=(job,), forbidden=()))
    monkeypatch.setattr(hang, "examine", lambda *_arguments, **_named: ((), (ended,)))
    assert run(["hang"]) == 3
    said = capsys.readouterr().out
    assert f"undecided: {hang.ENDED}" in said
    assert "no findings" not in said

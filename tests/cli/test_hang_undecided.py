"""`ddpdoctor hang` where every rank waits and no rule knows why."""

from __future__ import annotations

import pytest

from ddpdoctor.cli import run
from ddpdoctor.evidence import Evidence
from ddpdoctor.host import running_jobs
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

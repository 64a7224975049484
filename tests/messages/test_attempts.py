"""The verdict about a job whose launcher started its ranks again."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.run import CommandRun
from ddpdoctor.model import Report, Severity
from tests.rank_ends import FINE, LOST_PEER, ended, raised

NO_CONNECTION = raised("Gloo connectFullMesh failed with [pair.cc:152] timed out connecting", order=0)
BAD_SAMPLE = ended(LOST_PEER, raised("bad sample", "ValueError"))


def judged(last: Evidence, *earlier: Evidence) -> Report:
    return diagnose(replace(last, earlier=earlier))


def test_an_attempt_that_cannot_connect_after_one_that_failed_is_a_consequence() -> None:
    report = judged(ended(NO_CONNECTION, NO_CONNECTION), BAD_SAMPLE)

    first, second = report.findings
    assert (first.code, first.ranks, first.severity) == ("DDP401", (1,), Severity.FAIL)
    assert "in attempt 1 of 2: the launcher started the ranks again" in first.details
    assert (second.code, second.explained_by) == ("DDP229", "DDP401")
    assert "in attempt 2 of 2" in second.details


def test_ranks_that_could_never_connect_are_the_cause() -> None:
    apart = ended(NO_CONNECTION, NO_CONNECTION)

    (finding,) = judged(apart, apart, apart).findings

    assert (finding.code, finding.explained_by) == ("DDP229", None)
    assert "in each of 3 attempts" in finding.details


def test_one_cause_of_several_attempts_is_one_finding() -> None:
    (finding,) = judged(BAD_SAMPLE, BAD_SAMPLE, BAD_SAMPLE).findings

    assert finding.code == "DDP401"
    assert "in each of 3 attempts" in finding.details


def test_causes_of_two_attempts_come_in_their_order() -> None:
    killed = ended(RankExit(exit_code=-9, order=0), LOST_PEER)

    codes = [finding.code for finding in judged(killed, BAD_SAMPLE).findings]

    assert codes == ["DDP401", "DDP403"]


def test_what_a_job_survived_is_a_warning() -> None:
    report = judged(ended(FINE, FINE), BAD_SAMPLE)

    (finding,) = report.findings
    assert finding.severity is Severity.WARN
    assert not report.undecided


def test_what_a_job_that_still_runs_survived_explains_no_stall_of_it() -> None:
    """`--kill-on-hang` asks whether the stall is explained."""
    stalled = Evidence(job=(Stall(seconds=30.0),), about_job=True)

    report = judged(stalled, BAD_SAMPLE)

    assert [finding.severity for finding in report.findings] == [Severity.INFO]
    assert not report.explained
    assert report.undecided


def test_once_it_has_ended_the_earlier_failure_is_one() -> None:
    run = CommandRun(command=("torchrun", "train.py"), started_at=0.0, exit_code=1)
    stalled = Evidence(job=(Stall(seconds=30.0), run), about_job=True)

    assert [finding.severity for finding in judged(stalled, BAD_SAMPLE).findings] == [Severity.FAIL]


def test_attempts_that_nothing_ended_change_nothing() -> None:
    """A launcher starts its ranks again where a node joins."""
    assert judged(BAD_SAMPLE, ended(FINE, FINE)) == judged(BAD_SAMPLE)

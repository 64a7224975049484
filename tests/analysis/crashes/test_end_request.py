"""A case of an interrupted job holds what its ranks printed; rules see it without the errors that only show the interrupt."""

from __future__ import annotations

from pathlib import Path

from ddpdoctor import case
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.ranks import EndRequest, JobSize, RankError, RankExit


def interrupted(*errors: RankError, asked: bool = True) -> Evidence:
    ends = (RankExit(exit_code=1, error=error, ended_at=21.0, order=number) for number, error in enumerate(errors))
    return Evidence(
        job=(JobSize(ranks=len(errors) + 1), *((EndRequest(signal=2, at=20.0),) if asked else ())),
        ranks=tuple(RankFacts(rank=rank, host="a", facts=(end,)) for rank, end in enumerate(ends)),
        about_job=True,
    )


INTERRUPT = RankError(type="KeyboardInterrupt", message="")
LOST = RankError(type="RuntimeError", message="[gloo] Connection closed by peer [127.0.0.1]:4711")
DISK = RankError(type="OSError", message="cannot write the checkpoint")


def test_the_case_keeps_the_errors_and_the_rules_do_not_see_them(tmp_path: Path) -> None:
    evidence = interrupted(INTERRUPT, LOST)
    saved = case.load(case.save(evidence, tmp_path))
    ends = saved.per_rank(RankExit)
    assert ends is not None
    assert [entry.value.error for entry in ends] == [INTERRUPT, LOST]
    report = diagnose(saved)
    assert not report.findings
    assert not report.undecided


def test_an_error_of_a_ranks_own_is_a_finding_all_the_same() -> None:
    (finding,) = diagnose(interrupted(INTERRUPT, DISK)).findings
    assert (finding.code, finding.ranks) == ("DDP401", (1,))


def test_without_a_request_the_lost_peer_is_asked_about() -> None:
    (reason,) = diagnose(interrupted(LOST, LOST, asked=False)).undecided
    assert reason.startswith("ranks 0-1 lost a peer")

"""Buffers that no wrapper keeps equal: those that the program keeps equal, and those of FSDP2 that nobody updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.training_trace import StepSeen, Table, TensorKind, Track
from ddpdoctor.model import Finding, Severity

KEY = "weights"
RANKS = 3


def found(
    *steps: Sequence[str],
    wrapped: bool = True,
    shape: str = "[16, 8]",
    dtype: str = "float32",
    inputs: Sequence[str] = ("a", "b", "c"),
) -> list[Finding]:
    """What is found where the buffer `codes` has these fingerprints on ranks 0 to 2, step after step."""
    kind = TensorKind(role="buffer", name="codes", structure={"dtype": dtype, "shape": shape})
    facts = []
    for rank in range(RANKS):
        seen = tuple(
            StepSeen(step=number, forwards=number + 1, since=0, weights=KEY, after=KEY, input=inputs[rank],
                     buffers={"codes": of_ranks[rank]})
            for number, of_ranks in enumerate(steps)
        )  # fmt: skip
        told: Mapping[str, bool] = {"": False} if wrapped else {}
        track = Track(
            method="linear", every=1, start=KEY if wrapped else None, wrap_lines=(None,) if wrapped else (),
            tables={KEY: Table(digests={"w": KEY})}, steps=seen, kinds=(kind,) if wrapped else (),
            broadcasts_buffers=told, steps_made=len(steps), forwards_made=len(steps),
        )  # fmt: skip
        facts.append(RankFacts(rank=rank, host="host-a", facts=(track,)))
    report = diagnose(Evidence(ranks=tuple(facts), about_job=True))
    return [finding for finding in report.findings if finding.code == "DDP508"]


KEPT_EQUAL = ("000", "111", "222", "333")


def test_a_codebook_that_all_ranks_change_alike_and_one_changes_otherwise_at_last() -> None:
    (finding,) = found(*KEPT_EQUAL, "445")
    assert (finding.severity, finding.ranks, finding.measured["step"]) == (Severity.FAIL, (2,), 4)
    assert found(*KEPT_EQUAL, "444") == []


def test_statistics_of_each_rank_that_happened_to_be_equal_are_information() -> None:
    healthy = (
        found("000", "111", "223"),  # equal once
        found(*KEPT_EQUAL, "445", inputs="aaa"),  # from the same data: warm-up
        found(*KEPT_EQUAL, "445", shape="[]", dtype="int64"),  # a counter
        found("000", "000", "000", "000", "123"),  # frozen, and then not
    )
    assert [[finding.severity for finding in of_one] for of_one in healthy] == [[Severity.INFO]] * 4


def test_a_buffer_of_a_sharded_model_that_nobody_updates_and_one_rank_changes() -> None:
    (finding,) = found("000", "000", "000", "010", wrapped=False)
    assert (finding.severity, finding.ranks, finding.measured["step"]) == (Severity.FAIL, (1,), 3)
    assert "codes has changed on rank 1 only" in finding.message


def test_buffers_of_a_sharded_model_that_ranks_update_on_their_own_are_silent() -> None:
    assert found("000", "123", "456", wrapped=False) == []
    assert found("012", "012", "042", wrapped=False) == [], "each has its own from the start"
    assert found("000", "111", "211", wrapped=False) == [], "a running maximum"
    assert found("000", "000", "000", "000", wrapped=False) == []

"""Buffers that no wrapper keeps equal: those that all ranks write are theirs, and those of FSDP2 that nobody updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import Integrity, StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Table, TensorKind, Track
from ddpdoctor.model import Finding, Severity
from ddpdoctor.workflows.step_bisection import OpenQuestion
from ddpdoctor.workflows.verify_rerun import exact

KEY = "weights"
RANKS = 3


def integrity(writes: int) -> Integrity:
    return Integrity(begin=0, state=0, end=0, buffers={"codes": writes})


def job(
    *steps: Sequence[str],
    wrapped: bool = True,
    shape: str = "[16, 8]",
    dtype: str = "float32",
    writes: Sequence[Sequence[int]] = (),
    noted: Sequence[Sequence[int]] = (),
    lines: Mapping[int, Mapping[str, Sequence[Frame]]] | None = None,
) -> Evidence:
    """A job in which the buffer `codes` has these fingerprints on ranks 0 to 2, step after step, and so many `writes`.

    Ranks note their writes after the step: `noted` has them so, and a negative number where a rank has not yet. `lines` are
    those that a replay has seen to write in the last step, by rank and what they wrote.
    """
    kind = TensorKind(role="buffer", name="codes", structure={"dtype": dtype, "shape": shape})
    facts = []
    for rank in range(RANKS):
        seen = tuple(
            StepSeen(step=number, forwards=number + 1, since=0, weights=KEY, after=KEY, input=f"of rank {rank}",
                     buffers={"codes": of_ranks[rank]},
                     writes={what: (*seen,) for what, seen in (lines or {}).get(rank, {}).items()
                             if number == len(steps) - 1},
                     buffer_writes={"codes": writes[number][rank]} if writes else {},
                     integrity=integrity(noted[number][rank]) if noted and noted[number][rank] >= 0 else None)
            for number, of_ranks in enumerate(steps)
        )  # fmt: skip
        told: Mapping[str, bool] = {"": False} if wrapped else {}
        track = Track(
            method="linear", every=1, start=KEY if wrapped else None, wrap_lines=(None,) if wrapped else (),
            tables={KEY: Table(digests={"w": KEY})}, steps=seen, kinds=(kind,) if wrapped else (),
            broadcasts_buffers=told, steps_made=len(steps), forwards_made=len(steps),
        )  # fmt: skip
        facts.append(RankFacts(rank=rank, host="host-a", facts=(track,)))
    return Evidence(ranks=tuple(facts), about_job=True)


def found(*steps: Sequence[str], **options: Any) -> list[Finding]:
    """What is found of the buffer in such a `job`."""
    return [finding for finding in diagnose(job(*steps, **options)).findings if finding.code == "DDP508"]


KEPT_EQUAL = ("000", "111", "222", "333")


def test_statistics_that_a_program_averages_at_some_steps_are_information() -> None:
    healthy = (
        found("000", "111", "223"),
        found(*KEPT_EQUAL, "456"),  # averaged after each of the first steps, and then at few
        found(*KEPT_EQUAL, "445"),
        found(*KEPT_EQUAL, "456", "777", "89a"),
        found("000", "000", "000", "000", "123"),  # frozen, and then not
    )
    assert [[finding.severity for finding in of_one] for of_one in healthy] == [[Severity.INFO]] * 5


def test_a_buffer_that_one_rank_alone_has_changed_is_a_fault() -> None:
    (finding,) = found(*KEPT_EQUAL, "334")
    assert (finding.severity, finding.ranks, finding.measured["step"]) == (Severity.FAIL, (2,), 4)


def test_the_line_that_changed_it_on_that_rank_alone_is_shown() -> None:
    here, there = (Frame(file="/job/train.py", line=line, function="refresh") for line in (26, 30))
    (finding,) = found(*KEPT_EQUAL, "334", lines={2: {"buffer codes": [here], "buffer seen": [there]}})
    assert [(place.line, place.note) for place in finding.where] == [(26, "changes the buffer")]
    on_all = {rank: {"buffer codes": [here], "buffer seen": [there]} for rank in range(RANKS)}
    for none in (on_all, {2: {"buffer seen": [there]}}):
        (finding,) = found(*KEPT_EQUAL, "334", lines=none)
        assert not [place for place in finding.where if place.line in {26, 30}]


def test_a_replay_looks_for_the_line_of_a_fault_and_for_none_of_statistics() -> None:
    asked: list[bool] = []

    def again(left: OpenQuestion) -> Evidence:
        asked.append(left.line)
        return job(*KEPT_EQUAL, "334")

    healthy = job(*KEPT_EQUAL, "456")
    assert exact(healthy, "", again) == healthy
    assert asked == []
    exact(job(*KEPT_EQUAL, "334"), "", again)
    assert asked == [True]


STAYED = ("000", "000", "000")


def test_a_buffer_of_a_sharded_model_that_nobody_updates_and_one_rank_changes() -> None:
    nothing = [(0, 0, 0)] * 3
    for counts in ([*nothing, (0, 1, 0)], [*nothing, (0, 0, 0)]):  # by an operation, and by none
        (finding,) = found(*STAYED, "010", wrapped=False, writes=counts)
        assert (finding.severity, finding.ranks, finding.measured["step"]) == (Severity.FAIL, (1,), 3)
        assert "codes has changed on rank 1 only" in finding.message


def test_buffers_of_a_sharded_model_that_ranks_update_on_their_own_are_silent() -> None:
    never = [(0, 0, 0)] * 3
    assert found("000", "123", "456", wrapped=False, writes=never) == []
    assert found("012", "012", "042", wrapped=False, writes=never) == [], "each has its own from the start"
    assert found("000", "111", "211", wrapped=False, writes=never) == [], "a running maximum"
    assert found(*STAYED, "000", wrapped=False, writes=[(0, 0, 0)] * 4) == []


def test_a_buffer_of_a_sharded_model_that_all_ranks_write_and_that_stays_as_it_was_on_most_is_silent() -> None:
    """Each adds what it found in its own data, which is nothing but on rank 1."""
    each = [(number, number, number) for number in range(4)]
    assert found(*STAYED, "010", wrapped=False, writes=each) == []
    assert found(*STAYED, "010", wrapped=False, writes=[*each[:3], (3, 4, 3)]) == [], "and once more"
    assert found(*STAYED, "010", wrapped=False) == [], "nobody has counted"


def test_a_step_of_which_a_rank_has_not_noted_its_writes_yet_shows_no_fault() -> None:
    """A running maximum, asked while the job runs; and the fault once all have noted theirs."""
    counts = [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
    (of_each_rank,) = found("000", "111", "112", noted=[*counts[:2], (3, 3, -1)])
    assert of_each_rank.severity is Severity.INFO
    (healthy,) = found("000", "111", "112", noted=counts)
    assert healthy.severity is Severity.INFO
    (finding,) = found("000", "111", "112", noted=[*counts[:2], (2, 2, 3)])
    assert (finding.severity, finding.ranks) == (Severity.FAIL, (2,))

"""Tracks to the first step at which tensors differ: which element, what kind of difference, which line."""

from __future__ import annotations

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Left, Table, Track

WRAP = Frame(file="train.py", line=7, function="main")
STEP = Frame(file="train.py", line=12, function="main")


def said(*values: str, parts: bool = False) -> list[str]:
    """What is said of ranks whose only weight, sampled at one place, has these values after the only step."""
    ranks = []
    for rank, value in enumerate(values):
        tables = {
            "start": Table(digests={"w": "same"}, samples={"w": ((3, "1.0"),)}, shapes={"w": (2, 2)}),
            value: Table(digests={"w": value}, samples={"w": ((3, value),)}, shapes={"w": (2, 2)}),
        }
        step = StepSeen(step=0, forwards=1, since=0, weights="start", after="start" if parts else value, line=STEP)
        if parts:
            step = StepSeen(
                step=0, forwards=0, since=0, weights="start", after="start", line=STEP,
                parts={"w": (rank % 2, value)}, parts_before={"w": (rank % 2, "same")},
            )  # fmt: skip
        track = Track(
            method="xxh3", every=1, wrap_lines=(WRAP,), start="start",
            tables=tables, steps=(step,), steps_made=1, forwards_made=1,
        )  # fmt: skip
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    return [
        f"{finding.code} {finding.message} {finding.ranks} {sorted({where.line for where in finding.where})}"
        for finding in diagnose(Evidence(ranks=tuple(ranks), about_job=True)).findings
    ]


def test_the_element_and_the_step_are_named() -> None:
    assert said("1.0", "1.0", "1.5") == [
        "DDP503 at step 0 of 1: w[1, 1] is 1 on ranks 0-1 and 1.5 on rank 2, a difference of 0.5 (2,) [12]"
    ]


def test_a_sign_of_zero_is_called_that() -> None:
    (found,) = said("0.0", "0.0", "-0.0")
    assert "w[1, 1] is 0 on ranks 0-1 and -0 on rank 2: only the sign of zero differs, in the sampled elements" in found


def test_a_nan_payload_is_called_that() -> None:
    (found,) = said("nan (0x7fc00000)", "nan (0x7fc00001)", "nan (0x7fc00000)")
    assert "only the NaN payload differs" in found
    assert "nan (0x7fc00001) on rank 1" in found


def test_a_nan_beside_a_number_is_a_value() -> None:
    (found,) = said("0.5", "nan (0x7fc00001)", "0.5")
    assert "only" not in found


def test_ranks_that_hold_other_parts_are_not_compared() -> None:
    assert said("a", "b", "a", "b", parts=True) == []
    (found,) = said("a", "b", "a", "c", parts=True)
    assert found.startswith("DDP503 at step 0 of 1: w differs between rank 1 and rank 3")


def test_replicas_of_shards_that_start_apart_are_named_in_each_part() -> None:
    """HSDP of two shards and three replicas: the last replica, ranks 4 and 5, was built from another seed."""
    ranks = []
    for rank, value in enumerate(("a", "b", "a", "b", "c", "d")):
        step = StepSeen(
            step=0, forwards=0, since=0, weights="all", after="all", line=STEP, setting_lines={"lr": WRAP},
            parts={"w": (rank % 2, value)}, parts_before={"w": (rank % 2, value)},
        )  # fmt: skip
        track = Track(method="xxh3", every=1, tables={"all": Table(digests={})}, steps=(step,), steps_made=1)
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    (found,) = diagnose(Evidence(ranks=tuple(ranks), about_job=True)).findings
    assert (found.code, found.ranks, found.where[0].line) == ("DDP502", (4, 5), WRAP.line)
    assert found.message == "w differs between ranks 0,2 and rank 4, between ranks 1,3 and rank 5"
    assert "fully_shard" in (found.remedy or "")


def test_the_state_of_one_part_is_compared_between_the_ranks_that_hold_it() -> None:
    """HSDP of two shards and two replicas; ranks 0 and 2 hold the first part."""

    def found(*values: str) -> list[tuple[str, tuple[int, ...]]]:
        table = Table(digests={"w": "same"})
        ranks = []
        for rank, value in enumerate(values):
            held = {"w.exp_avg": (rank % 2, value)}
            step = StepSeen(step=0, forwards=1, since=0, weights="start", after="start", state_parts_before=held)
            track = Track(method="linear", every=1, start="start", tables={"start": table}, steps=(step,))
            ranks.append(RankFacts(rank=rank, host="host-a", facts=(track,)))
        report = diagnose(Evidence(ranks=tuple(ranks), about_job=True))
        return [(one.code, one.ranks) for one in report.findings]

    assert found("a", "b", "a", "b") == []
    assert found("a", "b", "a", "c") == [("DDP507", (1, 3))]


def ended_with(
    *digests: dict[str, str],
    writes: dict[int, int] | None = None,
    later: dict[int, int] | None = None,
    moments: dict[int, str] | None = None,
) -> list[tuple[str, tuple[int, ...], str]]:
    """What is said of ranks that were equal at the only audited step, and end four steps later with these weights.

    `writes` and `later` count those that are not of a step, before the last one and after it; without `later` nobody counts.
    """
    start = dict.fromkeys(("a", "b", "frozen"), "start")
    ranks = []
    for rank, own in enumerate(digests):
        step = StepSeen(step=0, forwards=1, since=0, weights="start", after="start", line=STEP)
        counted = (None, None) if later is None else (5 + (writes or {}).get(rank, 0), later.get(rank, 0))
        track = Track(
            method="xxh3", every=10, start="start", steps=(step,), steps_made=5, forwards_made=5,
            tables={"start": Table(digests=start), "last": Table(digests={**start, **own})},
            left=(Left(step=5, weights="last", writes=counted[0], later=counted[1], moment=(moments or {}).get(rank, "end")),),
        )  # fmt: skip
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    report = diagnose(Evidence(ranks=tuple(ranks), about_job=True))
    return [(one.code, one.ranks, one.severity.value) for one in report.findings]


def test_a_replay_that_saw_no_line_is_not_told_to_replay() -> None:
    def remedy(*, replayed: bool) -> str:
        ranks = []
        for rank in range(3):
            step = StepSeen(step=0, forwards=1, since=0, weights="start", after=f"{rank // 2}", line=STEP)
            tables = {key: Table(digests={"a": key, "b": key}) for key in ("start", "0", "1")}
            track = Track(method="xxh3", every=1, replayed=replayed, start="start", steps=(step,), tables=tables)
            ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
        (found,) = diagnose(Evidence(ranks=tuple(ranks), about_job=True)).findings
        assert (found.code, found.ranks) == ("DDP503", (2,))
        return found.remedy

    assert "--replay" in remedy(replayed=False)
    assert "--replay" not in remedy(replayed=True)
    assert "saw no line" in remedy(replayed=True)


def test_an_average_that_rank_0_puts_in_place_after_the_last_step_is_no_finding() -> None:
    trained, average = {"a": "t", "b": "t"}, {"a": "e", "b": "e"}
    assert ended_with(average, trained, trained, later={0: 1}) == []
    assert ended_with(average, trained, later={0: 1}) == []
    assert ended_with(trained, average, trained, later={1: 1}) == [("DDP503", (1,), "fail")]
    assert ended_with({**trained, "b": "e"}, trained, trained, later={0: 1}) == [("DDP503", (0,), "fail")]


def test_weights_that_became_different_in_training_are_a_finding_however_many_they_are() -> None:
    trained, other = {"a": "t", "b": "t"}, {"a": "e", "b": "e"}
    assert ended_with(trained, other, writes={1: 1}, later={}) == [("DDP503", (0, 1), "fail")]
    assert ended_with(other, trained, trained, writes={0: 1}, later={}) == [("DDP503", (0,), "fail")]
    assert ended_with(trained, other, later={1: 1}) == [("DDP503", (0, 1), "fail")]


def test_weights_that_were_looked_at_in_different_moments_are_not_compared() -> None:
    trained, average = {"a": "t", "b": "t"}, {"a": "e", "b": "e"}
    for later in (None, {}):
        assert ended_with(trained, average, later=later, moments={0: "pass 2"}) == []
        assert ended_with(average, trained, trained, later=later, moments={0: "pass 2", 1: "pass 1"}) == []
        both = ended_with(average, trained, later=later, moments={0: "pass 2", 1: "pass 2"})
        assert [code for code, _, _ in both] == ["DDP503"]


def test_weights_of_rank_0_that_may_have_been_put_in_place_are_a_warning() -> None:
    trained, other = {"a": "t", "b": "t"}, {"a": "e", "b": "e"}
    assert ended_with(other, trained) == [("DDP503", (0, 1), "warn")]
    assert ended_with(other, trained, later={}) == [("DDP503", (0, 1), "warn")]
    assert ended_with(other, trained, trained, writes={0: 1}, later={0: 1}) == [("DDP503", (0,), "warn")]

"""What is put down to the hardware, and what is not: as many writes on all ranks, one element, equal inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import Averaged, Gradient, Integrity, Recomputed, StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import OverflowSeen, ProbeSeen, Table, TensorKind, Track
from ddpdoctor.model import Finding, Severity

KINDS = (
    TensorKind(role="parameter", name="w", structure={"dtype": "float32", "shape": "[64]"}),
    TensorKind(role="buffer", name="mask", structure={"dtype": "float32", "shape": "[32]"}),
    TensorKind(role="buffer", name="few", structure={"dtype": "float32", "shape": "[4]"}),
)
TABLES = {
    key: Table(digests={"w": key, "v": "same"}, shapes={"w": (64,), "v": (64,)})
    for key in ("start", "a0", "a1", "a2", "bad", "alone")
}
GRADIENT = Gradient(digest="g", reduced=1.0, local=1.0, count=1, standing="reduced")


def step(number: int, weights: str, after: str, **fields: Any) -> StepSeen:
    own = {"begin": 0, "state": 0, "end": 0, "after": {"w": 7, "v": 1}, **fields.pop("integrity", {})}
    return StepSeen(
        step=number, forwards=number + 1, since=0, weights=weights, after=after, optimizer="SGD",
        **{"state": {"w.momentum": "m"}, "gradients": {"w": GRADIENT}, "integrity": Integrity(**own), **fields},
    )  # fmt: skip


def healthy() -> list[StepSeen]:
    return [step(0, "start", "a0"), step(1, "a0", "a1"), step(2, "a1", "a2")]


def job(
    sick: list[StepSeen], *, nproc: int = 3, every: int = 1, probes: dict[int, ProbeSeen] | None = None
) -> Evidence:
    """Rank 1 has the steps `sick`, the others those of a healthy job."""
    ranks = []
    for rank in range(nproc):
        steps = sick if rank == 1 else healthy()[: len(sick)]
        track = Track(
            method="xxh3", every=every, kinds=KINDS, start="start", tables=TABLES, steps=tuple(steps),
            probes=(probes[rank],) if probes else (),
        )  # fmt: skip
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    return Evidence(ranks=tuple(ranks), about_job=True)


def headline(evidence: Evidence) -> tuple[str, tuple[int, ...], str]:
    first = diagnose(evidence).findings[0]
    return first.code, first.ranks, str(first.measured.get("cause", ""))


def test_a_step_from_equal_inputs_to_other_weights() -> None:
    sick = [*healthy()[:1], step(1, "a0", "bad", integrity={"after": {"w": 7 ^ 1 << 20, "v": 1}})]
    assert headline(job(sick)) == ("DDP525", (1,), "step")
    assert diagnose(job(sick)).findings[0].measured["bits"] == [20]
    assert headline(job(sick, nproc=2)) == ("DDP525", (0, 1), "step")


def test_a_weight_that_became_nan_between_two_audits_is_not_put_down_to_the_batch() -> None:
    """Afterwards the weights of all ranks are NaN, and no parity tells what differed."""
    first, *_, last = healthy()
    nan = Integrity(begin=0, state=0, end=0, after={"w": 0x7FC00000FFC00001, "v": 1})
    gradient = {"w": Gradient(digest="nan", reduced=float("nan"), local=1.0, count=1, standing="reduced")}
    others = replace(last, after="alone", gradients=gradient, integrity=nan)
    own = {"w": replace(gradient["w"], local=float("nan"))}
    nan_here = replace(nan, after={"w": 0x7FC00000, "v": 1})
    sick = replace(others, weights="bad", gradients=own, not_finite=("w",), integrity=nan_here)
    found = diagnose(all_with([first, sick], [first, others])).findings[0]
    assert (found.code, found.ranks, found.measured["cause"]) == ("DDP517", (1,), "weights")


def test_a_step_with_a_closure_may_follow_the_losses_of_its_rank() -> None:
    everything = [
        *healthy()[:1],
        step(1, "a0", "bad", closure=True, integrity={"after": {"w": 0x123456789ABC, "v": 1}}),
    ]
    assert headline(job(everything))[:2] == ("DDP503", (1,))
    flipped = [*healthy()[:1], step(1, "a0", "bad", closure=True, integrity={"after": {"w": 7 ^ 1 << 20, "v": 1}})]
    assert headline(job(flipped)) == ("DDP525", (1,), "step")


def repeated(first: str, second: str = "", operation: str = "", failed: str = "") -> Recomputed:
    """A step that gave `first`, and then `second` or the same, when it was made again."""
    return Recomputed(
        first={"w": first, "v": "same"},
        second={"w": second or first, "v": "same"},
        parity={"w": 7, "v": 1},
        operation=operation,
        failed=failed,
    )


def with_repetitions(mine: Recomputed | None, others: Recomputed | None, *, nproc: int) -> Evidence:
    """Rank 1 has other weights after its second step; it and the others have made that step again."""
    flipped = {"after": {"w": 7 ^ 1 << 20, "v": 1}}
    evidence = job([*healthy()[:1], step(1, "a0", "bad", integrity=flipped, recomputed=mine)], nproc=nproc)
    ranks = []
    for facts in evidence.ranks:
        (track,) = facts.facts
        if facts.rank != 1:
            track = replace(track, steps=(track.steps[0], replace(track.steps[1], recomputed=others)))
        ranks.append(replace(facts, facts=(track,)))
    return replace(evidence, ranks=tuple(ranks))


@pytest.mark.parametrize("nproc", [2, 3])
def test_a_step_that_gives_the_weights_of_the_others_when_it_is_made_again(nproc: int) -> None:
    found = diagnose(with_repetitions(repeated("a1"), repeated("a1"), nproc=nproc)).findings[0]
    assert (found.code, found.ranks, found.measured["repeated"]) == ("DDP525", (1,), "once")
    assert found.measured["bits"] == [20]
    assert found.message.endswith("; made again, the step gives rank 1 the weights of the others")


def test_a_step_that_gives_each_rank_its_own_weights_again() -> None:
    found = diagnose(with_repetitions(repeated("bad"), repeated("a1"), nproc=3)).findings[0]
    assert (found.code, found.ranks, found.measured["repeated"]) == ("DDP525", (1,), "again")
    tied = diagnose(with_repetitions(repeated("bad"), repeated("a1"), nproc=2)).findings[0]
    assert tied.ranks == (0, 1)
    assert "no majority" in tied.message


def test_a_rank_that_gets_other_weights_each_time_is_named_with_two_ranks_too() -> None:
    found = diagnose(with_repetitions(repeated("x", "y", "aten.mul_"), repeated("a1"), nproc=2)).findings[0]
    assert (found.ranks, found.measured["cause"], found.measured["repeated"]) == ((1,), "step", "never")
    assert (
        "gives rank 1 other weights each time, first in the result of aten.mul_, the others their own" in found.message
    )


def test_an_operation_that_is_not_deterministic_on_any_rank_is_named_and_no_device() -> None:
    found = diagnose(
        with_repetitions(repeated("x", "y", "aten.rand"), repeated("p", "q", "aten.rand"), nproc=2)
    ).findings[0]
    assert (found.ranks, found.measured["cause"]) == ((0, 1), "nondeterministic")
    assert found.measured["operation"] == "aten.rand"
    assert found.message.endswith(
        "; made again twice, the step gives no rank the same weights, first in the result of aten.rand"
    )


@pytest.mark.parametrize(
    ("mine", "others"),
    [(None, repeated("a1")), (repeated("a1"), repeated("a1", failed="it calls collectives"))],
    ids=["one rank", "failed"],
)
def test_a_step_that_not_all_ranks_have_made_again_is_judged_as_before(
    mine: Recomputed | None, others: Recomputed | None
) -> None:
    found = diagnose(with_repetitions(mine, others, nproc=3)).findings[0]
    assert (found.ranks, found.measured["bits"]) == ((1,), [20])
    assert "repeated" not in found.measured


def test_weights_that_changed_between_forward_and_step_are_no_fault_of_the_step() -> None:
    changed = replace(repeated("bad"), given={"w": "changed"})
    found = diagnose(with_repetitions(changed, replace(repeated("a1"), given={"w": "a0"}), nproc=3)).findings[0]
    assert (found.code, found.ranks) == ("DDP525", (1,))
    assert "repeated" not in found.measured


def test_ranks_that_agree_neither_with_themselves_nor_with_each_other_are_not_told_apart() -> None:
    found = diagnose(with_repetitions(repeated("a2"), repeated("a1"), nproc=2)).findings[0]
    assert found.ranks == (0, 1)
    assert "repeated" not in found.measured


def test_a_step_in_which_an_operation_wrote_more_is_code() -> None:
    sick = [*healthy()[:1], step(1, "a0", "bad", integrity={"end": 1, "after": {"w": 7 ^ 1 << 20, "v": 1}})]
    assert headline(job(sick))[0] == "DDP503"


MOVED = {"before": {"w": 7 ^ 1 << 35, "v": 1}, "after": {"w": 7 ^ 1 << 35, "v": 1}}


@pytest.mark.parametrize("nproc", [2, 3])
def test_a_bit_of_a_weight_that_nothing_wrote(nproc: int) -> None:
    sick = [*healthy()[:1], step(1, "bad", "bad", integrity=MOVED)]
    assert headline(job(sick, nproc=nproc)) == ("DDP525", (1,), "memory")


@pytest.mark.parametrize(
    "integrity",
    [
        {**MOVED, "begin": 1},  # an operation wrote
        {"before": {"w": 7 ^ 1 << 35 ^ 1, "v": 1}},  # two elements
    ],
)
def test_weights_that_code_wrote(integrity: dict[str, Any]) -> None:
    assert headline(job([*healthy()[:1], step(1, "bad", "bad", integrity=integrity)]))[0] == "DDP509"


def test_an_element_that_changed_between_two_audits() -> None:
    first, *_, last = healthy()
    sick = replace(
        last, weights="bad", after="bad", integrity=Integrity(begin=0, state=0, end=0, after={"w": 7 ^ 0x30, "v": 1})
    )
    evidence = job([first, sick], every=2)
    ranks = [
        replace(facts, facts=(replace(facts.facts[0], steps=(facts.facts[0].steps[0], last)),))
        if facts.rank != 1
        else facts
        for facts in evidence.ranks
    ]
    assert headline(replace(evidence, ranks=tuple(ranks))) == ("DDP525", (1,), "unseen")


def test_state_that_nothing_wrote() -> None:
    sick = [*healthy()[:1], step(1, "a0", "bad")]
    sick[1] = replace(sick[1], state={"w.momentum": "other"})
    assert headline(job(sick)) == ("DDP525", (1,), "state")
    loaded = replace(sick[1], integrity=Integrity(begin=0, state=-5, end=0, after={"w": 7}))
    assert headline(job([sick[0], loaded]))[0] == "DDP507"


def all_with(sick: list[StepSeen], others: list[StepSeen], *, nproc: int = 3, **of_track: Any) -> Evidence:
    """Rank 1 has the steps `sick`, every other rank those of `others`; steps that a GradScaler left out are kept apart."""
    ranks = []
    for rank in range(nproc):
        steps = sick if rank == 1 else others
        track = Track(
            method="xxh3", every=1, kinds=KINDS, start="start", tables=TABLES,
            steps=tuple(one for one in steps if not one.left_out), left_out=tuple(one for one in steps if one.left_out),
            overflows=tuple(OverflowSeen(step=one.step, forwards=one.forwards, scale=8.0) for one in steps if one.left_out),
            **of_track,
        )  # fmt: skip
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    return Evidence(ranks=tuple(ranks), about_job=True)


def first_step(weights: str, after: str, writes: int = 0, **fields: Any) -> list[StepSeen]:
    """The first step of a job, whose weights operations have written so often since the model was wrapped."""
    word = 7 if weights != "bad" else 7 ^ 1 << 35
    own = {"wrapped": 4, "begin": 4 + writes, "end": 4 + writes, "before": {"w": word, "v": 1}}
    return [step(0, weights, after, integrity={**own, **fields.pop("integrity", {})}, **fields)]


@pytest.mark.parametrize("nproc", [2, 3])
def test_a_bit_that_flips_before_the_first_step(nproc: int) -> None:
    sick, others = first_step("bad", "bad"), first_step("start", "a0")
    assert headline(all_with(sick, others, nproc=nproc)) == ("DDP525", (1,), "memory")
    written = first_step("bad", "bad", writes=1)
    assert headline(all_with(written, others, nproc=nproc))[0] == "DDP509"


def test_an_initialisation_from_the_data_of_each_rank_is_code() -> None:
    """`model.module[2].bias[0] = local_prior` on every rank, after DistributedDataParallel made the weights equal."""
    sick, others = first_step("bad", "bad", writes=1), first_step("a1", "a1", writes=1)
    assert [headline(all_with(sick, others, nproc=nproc))[:2] for nproc in (2, 3)] == [
        ("DDP509", (0, 1)),
        ("DDP509", (1,)),
    ]
    found = diagnose(all_with(first_step("bad", "bad"), first_step("a1", "a1"), nproc=2)).findings[0]
    assert (found.code, found.measured["cause"]) == ("DDP525", "memory")
    assert "PyTorch counted as many writes on all of them since the model was wrapped" in found.message


def test_a_bit_that_flips_in_the_first_step() -> None:
    flipped = {"after": {"w": 7 ^ 1 << 20, "v": 1}}
    sick = first_step("start", "bad", integrity=flipped)
    assert headline(all_with(sick, first_step("start", "a0"))) == ("DDP525", (1,), "step")


def test_weights_that_one_rank_read_otherwise_from_a_checkpoint() -> None:
    loads = {"load": Frame(file="train.py", line=7, function="main")}
    sick, others = first_step("bad", "bad", 6, lines=loads), first_step("a1", "a2", 6, lines=loads)
    found = diagnose(all_with(sick, others)).findings[0]
    assert (found.code, found.ranks) == ("DDP525", (1,))
    assert "w on rank 1 is not what the other ranks loaded (bit 3 of one element)" in found.message
    assert "sha256sum" in (found.remedy or "")
    assert headline(all_with(sick, others, nproc=2))[:2] == ("DDP525", (0, 1))  # nothing tells which of them is right


@pytest.mark.parametrize(("tensors", "code"), [(5, "DDP525"), (1, "DDP507")])
def test_state_that_one_rank_read_otherwise_from_a_checkpoint(tensors: int, code: str) -> None:
    equal = {f"w.{number}": "m" for number in range(tensors)}
    at = {"loaded": Frame(file="train.py", line=8, function="main")}
    sick = first_step("start", "bad", state={**equal, "w.0": "other"}, **at)
    assert headline(all_with(sick, first_step("start", "a0", state=equal, **at)))[:2] == (code, (1,))


def left_out(weights: str, **integrity: Any) -> list[StepSeen]:
    """A step, and one that a GradScaler leaves out."""
    return [*healthy()[:1], step(1, weights, weights, left_out=True, scale=8.0, integrity=integrity)]


def test_a_weight_that_becomes_nan_under_a_gradscaler_which_leaves_out_all_steps_from_then_on() -> None:
    assert headline(all_with(left_out("bad", **MOVED), left_out("a0"))) == ("DDP525", (1,), "memory")
    assert not diagnose(all_with(left_out("a0"), left_out("a0"))).findings


def test_a_reduced_gradient_that_becomes_infinite_makes_one_rank_leave_out_a_step() -> None:
    made = step(1, "a0", "a1", scale=8.0, integrity={"reduced": {"w": "g", "v": "h"}})
    alone = left_out("a0", reduced={"w": "inf", "v": "h"})
    assert headline(all_with(alone, [*healthy()[:1], made]))[:2] == ("DDP526", (1,))
    changed = left_out("a0", reduced={"w": "g", "v": "h"})  # code has changed it after the reduction
    assert headline(all_with(changed, [*healthy()[:1], made])) == ("DDP510", (1,), "found_inf")


LEFT_TO_RANKS: dict[str, Any] = {"broadcasts_buffers": {"": False}}
NAMES = ("mask", "few", "mean")


def with_buffers(writes: Mapping[str, int] | None = None, *, flipped: int = 0, **buffers: str) -> list[StepSeen]:
    """Two steps before which all ranks have the same buffers, and one before which they have `buffers`.

    Each was written as often since then as `writes` says, and the bits `flipped` have changed in each.
    """
    start = dict.fromkeys(NAMES, "equal")
    made = writes or {}

    def seen(one: StepSeen, counts: dict[str, int], parity: int, own: dict[str, str]) -> StepSeen:
        integrity = Integrity(
            begin=0, state=0, end=0, buffers=counts, buffers_before=dict.fromkeys(NAMES, parity), after={"w": 7}
        )
        return replace(one, integrity=integrity, buffers={**start, **own})

    first, second, third = healthy()
    return [
        seen(first, dict.fromkeys(NAMES, 1), 9, {}), seen(second, dict.fromkeys(NAMES, 3), 9, {}),
        seen(third, {name: 3 + made.get(name, 0) for name in NAMES}, 9 ^ flipped, buffers),
    ]  # fmt: skip


def of_buffers(sick: list[StepSeen], others: list[StepSeen], **of_track: Any) -> Finding:
    """The first finding, which is the same with two ranks and with three."""
    two, three = (diagnose(all_with(sick, others, nproc=nproc, **of_track)).findings[0] for nproc in (2, 3))
    assert (two.code, two.severity) == (three.code, three.severity)
    return three


def test_a_bit_of_a_buffer_that_nothing_wrote_beside_statistics_that_are_written() -> None:
    found = of_buffers(with_buffers({"mean": 1}, flipped=8, mask="x"), with_buffers({"mean": 1}), **LEFT_TO_RANKS)
    assert (found.code, found.ranks, found.measured["cause"]) == ("DDP525", (1,), "buffer")
    assert found.message.endswith("(bit 3 of one element), and PyTorch counted no writes to it since step 1")


@pytest.mark.parametrize(
    ("name", "flipped"), [("mask", 1 << 3 | 1 << 35), ("mask", 0), ("few", 3)], ids=["two", "even", "small"]
)
def test_a_buffer_of_which_several_elements_changed_was_written_past_the_counters(name: str, flipped: int) -> None:
    """`module.scale.data.fill_(2.0)`."""
    found = of_buffers(with_buffers(flipped=flipped, **{name: "x"}), with_buffers(), **LEFT_TO_RANKS)
    assert (found.code, found.ranks, found.severity) == ("DDP508", (1,), Severity.FAIL)
    assert found.message.endswith(f"; {name} has changed on rank 1 only")


def test_a_buffer_that_operations_wrote_on_one_rank_only() -> None:
    found = of_buffers(with_buffers({"mask": 1}, flipped=8, mask="x"), with_buffers(), **LEFT_TO_RANKS)
    assert (found.code, found.ranks, found.severity) == ("DDP508", (1,), Severity.FAIL)


@pytest.mark.parametrize(
    ("of_track", "severity"),
    [
        (LEFT_TO_RANKS, Severity.INFO),
        ({"broadcasts_buffers": {"": True}, "ignored_buffers": frozenset({"mask"})}, Severity.INFO),
        ({"broadcasts_buffers": {"": True}}, Severity.FAIL),
    ],
    ids=["left to ranks", "ignored", "broadcast"],
)
def test_a_running_maximum_that_every_rank_writes_and_one_changes(of_track: dict[str, Any], severity: Severity) -> None:
    """`amax.copy_(torch.maximum(amax, x.abs().max()))`: the outlier is in one rank's batch."""
    found = of_buffers(with_buffers({"mask": 1}, flipped=8, mask="x"), with_buffers({"mask": 1}), **of_track)
    assert (found.code, found.severity) == ("DDP508", severity)


def test_statistics_that_each_rank_updates_on_its_own_are_no_fault() -> None:
    sick, others = with_buffers({"mean": 1}, mean="of 1"), with_buffers({"mean": 1}, mean="of the others")
    found = of_buffers(sick, others, **LEFT_TO_RANKS)
    assert (found.code, found.severity, found.remedy) == ("DDP508", Severity.INFO, "save and evaluate from rank 0")
    assert "; 1 buffer is updated by each rank on its own" in found.message
    assert of_buffers(sick, others, broadcasts_buffers={"": True}).severity is Severity.FAIL


def test_statistics_that_were_never_seen_equal_are_no_fault_where_they_are_left_to_the_ranks() -> None:
    """A forward before the loop has updated them, or a step that the GradScaler left out."""
    sick, others = (
        [replace(one, buffers={"mean": own}) for one in with_buffers()] for own in ("of 1", "of the others")
    )
    assert of_buffers(sick, others, **LEFT_TO_RANKS).severity is Severity.INFO
    assert of_buffers(sick, others, broadcasts_buffers={"": True}).severity is Severity.FAIL


def test_another_buffer_is_found_beside_statistics_of_each_rank() -> None:
    sick = with_buffers({"mean": 1, "mask": 1}, mean="of 1", mask="x")
    found = of_buffers(sick, with_buffers({"mean": 1}, mean="of the others"), **LEFT_TO_RANKS)
    assert (found.code, found.ranks, found.measured["tensors"]) == ("DDP508", (1,), ["mask"])


@pytest.mark.parametrize(("of_torch", "code"), [(True, "DDP526"), (False, "DDP505")])
def test_a_reduction_by_a_communication_hook(of_torch: bool, code: str) -> None:
    hook = {"comm_hook": Frame(file="train.py", line=3, function="main"), "hook_of_torch": of_torch}
    own = {"w": Gradient(digest="other", reduced=1.5, local=1.0, count=1, standing="reduced")}
    sick = step(1, "a0", "bad", gradients=own, integrity={"reduced": {"w": "other"}}, **hook)
    others = step(1, "a0", "a1", integrity={"reduced": {"w": "g"}}, **hook)
    assert headline(all_with([*healthy()[:1], sick], [*healthy()[:1], others]))[:2] == (code, (1,))


def test_a_reduction_with_two_results() -> None:
    own = {"w": Gradient(digest="other", reduced=1.5, local=1.0, count=1, standing="reduced")}
    sick = [*healthy()[:1], step(1, "a0", "bad", gradients=own, integrity={"reduced": {"w": "other"}})]
    evidence = job(sick)
    equal = [replace(one, integrity=replace(one.integrity, reduced={"w": "g"})) for one in healthy()[:2]]  # type: ignore[type-var]
    ranks = tuple(
        replace(facts, facts=(replace(facts.facts[0], steps=tuple(equal)),)) if facts.rank != 1 else facts
        for facts in evidence.ranks
    )
    assert headline(replace(evidence, ranks=ranks))[:2] == ("DDP526", (1,))
    assert headline(evidence)[:2] == ("DDP505", (1,))  # nobody saw the gradients when the backward returned


def gradients_that_part(nproc: int = 3, *, writes: int | None = 1, others: int = 1, **fields: Any) -> Evidence:
    """The gradient of `w` is equal when the backward returns, and at the step rank 1 holds another one."""
    flipped = {"digest": "other", "reduced": 1.5, "parity": 5 ^ 1 << 20, **fields}
    sick = replace(GRADIENT, **flipped)
    return all_with(
        [step(1, "a0", "bad", gradients={"w": sick}, integrity={"reduced": {"w": "g"}, "gradient_writes": writes})],
        [
            step(
                1, "a0", "a1", gradients={"w": replace(GRADIENT, parity=5)},
                integrity={"reduced": {"w": "g"}, "gradient_writes": others},
            )
        ],
        nproc=nproc,
    )  # fmt: skip


@pytest.mark.parametrize("nproc", [2, 3])
def test_one_element_of_a_gradient_that_changed_after_the_reduction(nproc: int) -> None:
    evidence = gradients_that_part(nproc)
    assert headline(evidence) == ("DDP525", (1,), "gradient")
    first = diagnose(evidence).findings[0]
    assert first.measured["bits"] == [20]
    assert "the averaged gradient of w changed on rank 1" in first.message


@pytest.mark.parametrize(
    "fields",
    [
        {"writes": 2},  # an operation more on this rank
        {"writes": None},  # gradients were replaced
        {"parity": 5 ^ 3 << 31},  # two elements
        {"parity": None},
    ],
)
def test_a_gradient_that_code_may_have_changed(fields: dict[str, Any]) -> None:
    assert headline(gradients_that_part(**fields))[:2] == ("DDP505", (1,))


def probe(digest: str, again: str = "", **fields: Any) -> ProbeSeen:
    outputs = {"a (Linear)": "1", "b (Linear)": digest, "the model (Net)": digest}
    repeated = {**outputs, "b (Linear)": again or digest}
    return ProbeSeen(
        **{"step": 2, "forwards": 3, "weights": "w", "input": "x", "outputs": outputs, "again": repeated, **fields}
    )


def test_a_forward_with_another_result() -> None:
    probes = {0: probe("2"), 1: probe("3", settings={"threads": "8"}), 2: probe("2", settings={"threads": "1"})}
    first = diagnose(job(healthy(), probes=probes)).findings[0]
    assert (first.code, first.ranks, first.measured["tensors"]) == ("DDP527", (1,), ["b (Linear)"])
    assert "threads" in first.message


def test_a_forward_that_does_not_repeat_itself() -> None:
    first = diagnose(job(healthy(), probes={0: probe("2"), 1: probe("2", again="4"), 2: probe("2")})).findings[0]
    assert (first.code, first.ranks) == ("DDP527", (1,))


def test_probes_of_other_weights_or_batches_are_not_compared() -> None:
    for other in ({"weights": "v"}, {"input": "y"}):
        assert diagnose(job(healthy(), probes={0: probe("2"), 1: probe("3", **other), 2: probe("2")})).findings == ()


def local(*, equal: bool = True) -> Evidence:
    """Steps of the ranks' own after step 0, averaged before step 2."""
    averaged = Averaged(made=1, local=0)
    sick = [step(0, "start", "alone"), step(2, "a1" if equal else "bad", "alone", averaging=averaged)]
    evidence = job(sick)
    ranks = tuple(
        replace(facts, facts=(replace(facts.facts[0], steps=(healthy()[0], step(2, "a1", "a2", averaging=averaged))),))
        if facts.rank != 1
        else facts
        for facts in evidence.ranks
    )
    return replace(evidence, ranks=ranks)


def test_steps_between_averagings_are_the_ranks_own() -> None:
    assert diagnose(local()).findings == ()


def test_a_tensor_that_averaging_leaves_out() -> None:
    first = diagnose(local(equal=False)).findings[0]
    assert (first.code, first.ranks, first.measured["step"]) == ("DDP503", (1,), 2)
    assert "right after the weights were averaged" in first.message

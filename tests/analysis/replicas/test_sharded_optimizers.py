"""Optimizers that each step a part of the parameters: silent while the parts are sent to all ranks, found where one is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import Gradient, StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Left, Table, TensorKind, Track
from ddpdoctor.model import Finding

STEP = Frame(file="train.py", line=7, function="main")
NAMES = ("a", "b", "c")
GROUP = "param_groups[0]['params'][0]"


def gradient(digest: str, standing: str = "reduced") -> Gradient:
    local = 1.0 if standing == "reduced" else None
    return Gradient(digest=digest, reduced=1.0, local=local, count=int(local is not None), standing=standing)


def job(
    stepped: Mapping[int, tuple[str, ...]],
    *,
    unsent: str = "",
    changed: str = "",
    settings: Mapping[int, Mapping[str, str]] | None = None,
) -> list[Finding]:
    """What is found in three steps of ranks that step these parameters each; `unsent` stays with its owner after step 1.

    `changed` changes on its owner alone after it was sent.
    """
    ranks = []
    for rank, own in stepped.items():
        tables: dict[str, Table] = {}
        steps: list[StepSeen] = []
        for step in range(3):
            late = unsent if step == 2 else ""
            before = {name: f"{step - 1 if name == late and name not in own else step}" for name in NAMES}
            if step == 2 and changed in own:
                before[changed] = "flipped"
            after = {name: f"{step + (name in own)}" for name in NAMES}
            tables |= {key(before): table(before), key(after): table(after)}
            steps.append(
                StepSeen(
                    step=step, forwards=step + 1, since=0, line=STEP, gradients={name: gradient("g") for name in own},
                    state={f"{name}.exp_avg": f"{rank}" for name in own if step}, optimizer="Adam",
                    settings=(settings or {}).get(rank, {"lr": "0.1", "number of parameters": str(len(own))}),
                    weights=key(before), after=key(after),
                )
            )  # fmt: skip
        track = Track(
            method="xxh3", every=1, start=steps[0].weights, steps=tuple(steps), steps_made=3, forwards_made=3,
            left=(Left(step=3, weights=steps[-1].after),), tables=tables,
        )  # fmt: skip
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    return [*diagnose(Evidence(ranks=tuple(ranks), about_job=True)).findings]


def key(held: Mapping[str, str]) -> str:
    return ",".join(held.values())


def table(held: Mapping[str, str]) -> Table:
    return Table(digests=dict(held), shapes=dict.fromkeys(held, (2, 2)))


SHARED = {0: ("a",), 1: ("b",), 2: ("c",)}
IN_PAIRS = {0: ("a", "c"), 1: ("b",), 2: ("a", "c"), 3: ("b",)}


def test_parts_that_are_sent_to_all_ranks_are_no_finding() -> None:
    assert job(SHARED) == []
    assert job({0: ("a", "c"), 1: ("b",)}) == []
    assert job(IN_PAIRS) == []


def test_a_part_that_is_not_sent_is_named_with_the_rank_that_steps_it() -> None:
    (found,) = job(SHARED, unsent="c")
    assert (found.code, found.ranks, found.measured["tensor"], found.measured["steppers"]) == ("DDP503", (2,), "c", [2])
    assert found.message == (
        "at step 2 of 3: c differs between ranks 0-1 and rank 2 before the forward; only rank 2 steps it"
    )
    assert "broadcast" in found.remedy


def test_a_part_that_changed_after_it_was_sent_is_not_called_unsent() -> None:
    (found,) = job(SHARED, changed="c")
    assert (found.code, found.ranks, found.measured["tensor"]) == ("DDP503", (2,), "c")
    assert "steppers" not in found.measured


def test_an_optimizer_that_lacks_a_parameter_shares_nothing_out() -> None:
    found = job({0: ("a", "b", "c"), 1: ("a", "b"), 2: ("a", "b", "c")})
    assert [(one.code, one.ranks) for one in found if one.explained_by is None] == [("DDP506", (1,))]


def test_another_learning_rate_for_the_same_parameters_is_a_setting_all_the_same() -> None:
    rates = {rank: {"lr": "0.2" if rank == 1 else "0.1"} for rank in range(3)}
    assert [(one.code, one.ranks) for one in job(SHARED, settings=rates)] == [("DDP506", (1,))]


def branch(*, told: bool = False, sent: bool = False, held: str = "2") -> list[str]:
    """The codes found where each of two ranks has gradients for one of two parameters, its own; the optimizers hold `held`."""
    ranks = []
    for rank, name in enumerate("ab"):
        tables: dict[str, Table] = {}
        steps: list[StepSeen] = []
        for step in range(3):
            before = {own: f"{step if sent or own == name else 0}" for own in "ab"}
            after = {**before, name: f"{step + 1}"}
            tables |= {key(before): table(before), key(after): table(after)}
            got = Gradient(digest=f"{rank}", reduced=1.0, local=1.0, count=1, standing="reduced")
            steps.append(
                StepSeen(
                    step=step, forwards=step + 1, since=0, line=STEP, gradients={name: got}, synchronised=not told,
                    settings={"lr": "0.1", "number of parameters": held}, weights=key(before), after=key(after),
                )
            )  # fmt: skip
        track = Track(
            method="xxh3", every=1, start="0,0", steps=tuple(steps), steps_made=3, forwards_made=3, tables=tables
        )
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    return [one.code for one in diagnose(Evidence(ranks=tuple(ranks), about_job=True)).findings]


def test_ranks_that_take_other_branches_of_one_model_share_nothing_out() -> None:
    assert branch()[0] == "DDP504"
    assert branch(told=True)[0] == "DDP504"
    assert branch(told=True, held="1")[0] == "DDP504"
    assert branch(sent=True) == []
    assert branch(sent=True, held="1") == []


def flat(*, size: int, local: bool = False, forgotten: bool = False, exchanged: bool = False) -> list[Finding]:
    """Each of three ranks steps one tensor of `size` elements that only its optimizer knows; the model has nine."""
    ranks = []
    for rank in range(3):
        tables: dict[str, Table] = {}
        steps: list[StepSeen] = []
        for step in range(3):
            held = {"a": "0" if forgotten and rank == 1 and step == 2 else f"{step}"}
            own = {**held, GROUP: f"{rank} {step}"}
            shapes = {"a": (3, 3), GROUP: (size,)}
            tables |= {key(held): Table(digests=held, shapes=shapes), key(own): Table(digests=own, shapes=shapes)}
            mine: dict[str, Any] = {"local": 1.0, "count": 1} if local else {"local": None, "count": 0}
            given = {GROUP: Gradient(digest=f"{rank}", reduced=float(rank), standing="outside", **mine)}
            steps.append(
                StepSeen(
                    step=step, forwards=step + 1, since=0, line=STEP, gradients=given, weights=key(held), after=key(own),
                    state={f"{GROUP}.exp_avg": f"{rank} {step}"} if step else {}, settings={"lr": "0.1"},
                    exchanged=exchanged,
                )
            )  # fmt: skip
        kinds = (TensorKind(role="parameter", name="a", structure={"requires_grad": "True"}),)
        track = Track(
            method="xxh3",
            every=1,
            start="0",
            steps=tuple(steps),
            steps_made=3,
            forwards_made=3,
            tables=tables,
            kinds=kinds,
        )
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    return [*diagnose(Evidence(ranks=tuple(ranks), about_job=True)).findings]


def test_parts_of_a_flat_copy_are_each_ranks_own() -> None:
    assert flat(size=3) == []
    (found,) = flat(size=3, forgotten=True)
    assert (found.code, found.ranks, found.measured["tensor"]) == ("DDP503", (1,), "a")


def test_a_parameter_outside_the_wrapped_model_is_no_part_of_a_copy() -> None:
    assert flat(size=3, local=True)[0].code == "DDP518"
    assert flat(size=9)[0].code != "DDP503"


def test_tables_of_embeddings_are_each_ranks_own_where_ranks_exchange_activations() -> None:
    assert flat(size=9, local=True)[0].code == "DDP518"
    assert flat(size=9, local=True, exchanged=True) == []
    (found,) = flat(size=9, local=True, exchanged=True, forgotten=True)
    assert (found.code, found.ranks, found.measured["tensor"]) == ("DDP503", (1,), "a")


def unwrapped(
    *, digests: tuple[str, ...], after: tuple[str, ...], local: float | None = None
) -> list[tuple[str, tuple[int, ...]]]:
    """What is found where ranks without a wrapped model step one tensor with these gradients to these values."""
    ranks = []
    for rank, (digest, value) in enumerate(zip(digests, after, strict=True)):
        given = Gradient(
            digest=digest, reduced=1.0 + rank, local=local and local + rank, count=bool(local), standing="no model"
        )
        step = StepSeen(
            step=0,
            forwards=0,
            since=1,
            line=STEP,
            lines={"backward": STEP},
            gradients={GROUP: given},
            weights="",
            after=value,
        )
        tables = {"": Table(digests={}), value: Table(digests={GROUP: value})}
        track = Track(method="xxh3", every=1, steps=(step,), steps_made=1, forwards_made=0, tables=tables)
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    return [(one.code, one.ranks) for one in diagnose(Evidence(ranks=tuple(ranks), about_job=True)).findings]


def test_parts_that_a_backward_does_not_reach_are_each_ranks_own() -> None:
    """FSDP, and ZeRO written by hand without DistributedDataParallel."""
    own = ("g0", "g1", "g2")
    assert unwrapped(digests=own, after=("a", "b", "c")) == []
    assert unwrapped(digests=own, after=("a", "b", "c"), local=1.0)[0] == ("DDP504", (0, 1, 2))
    assert unwrapped(digests=("g", "g", "g"), after=("a", "a", "b")) == [
        ("DDP503", (2,))
    ]  # a copy in full on each rank

"""Inputs that several ranks share are a fault where DDP averages over all ranks, and none where ranks hold parts of a model."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.replicas.data_sharding import data_divergences
from ddpdoctor.analysis.replicas.divergences.data import SameInputs
from ddpdoctor.evidence.audited_steps import Gradient, StepSeen
from ddpdoctor.evidence.training_trace import Track

STEPS = 4


def step(number: int, given: str, *, gradient: str = "g", synchronised: bool | None = True) -> StepSeen:
    reduced = Gradient(digest=gradient, reduced=1.0, local=1.0, count=1, standing="reduced")
    return StepSeen(
        step=number,
        forwards=number + 1,
        since=0,
        weights="before",
        after="after",
        input=given,
        synchronised=synchronised,
        gradients={"w": reduced},
    )


def told(*steps: dict[int, StepSeen]) -> tuple[int, ...]:
    tracks = {rank: Track(method="linear", every=1) for rank in steps[0]}
    found = [one for one in data_divergences(tracks, steps) if isinstance(one, SameInputs)]
    return found[0].ranks if found else ()


def drawn(number: int, *names: str) -> dict[int, StepSeen]:
    return {rank: step(number, f"{name}{number}") for rank, name in enumerate(names)}


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (("a", "a", "a"), (0, 1, 2)),
        (("b", "a", "a"), (1, 2)),
        (("a", "b", "c"), ()),
        (("a", "b", "a", "b"), (0, 1, 2, 3)),
        (("a", "b", "c", "b", "a"), (0, 1, 3, 4)),
    ],
    ids=["all alike", "two of three", "each its own", "a seed by local rank", "two pairs, and one of its own"],
)
def test_ranks_with_the_same_inputs_in_every_step_are_named(names: tuple[str, ...], ranks: tuple[int, ...]) -> None:
    assert told(*(drawn(number, *names) for number in range(STEPS))) == ranks


def test_a_batch_that_two_ranks_share_by_chance_is_no_finding() -> None:
    steps = [drawn(number, "a", "b", "c") for number in range(STEPS)]
    assert told(*steps[:-1], drawn(STEPS - 1, "a", "a", "c")) == ()


def test_ranks_that_hold_parts_of_one_model_share_their_inputs() -> None:
    parts = [
        {rank: step(number, f"{rank // 2}{number}", gradient=f"part {rank % 2}") for rank in range(4)}
        for number in range(STEPS)
    ]
    assert told(*parts) == ()


def test_ranks_that_no_wrapper_averages_may_share_their_inputs() -> None:
    alone = [
        {rank: step(number, f"{rank // 2}{number}", synchronised=None) for rank in range(4)} for number in range(STEPS)
    ]
    assert told(*alone) == ()

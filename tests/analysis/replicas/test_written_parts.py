"""Parts of parameters on a device mesh that changed between two steps: who changed them, and whether code did."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ddpdoctor.analysis.replicas.divergences.results import Corrupted, StepNotReproducible
from ddpdoctor.analysis.replicas.divergences.steps import WeightsWritten
from ddpdoctor.analysis.replicas.written_parts import parts_written
from ddpdoctor.evidence.audited_steps import PartMark, StepSeen

ELEMENT = 32  # bits
Seen = Mapping[int, StepSeen]
Held = tuple[int, int]  # the bytes of a part, as a number, and how often operations have written it


WEIGHTS, STATE = ("parts", "part_marks"), ("state_parts", "state_marks")


def moment(
    step: int, held: Mapping[int, Mapping[str, Held]], *, holders: int, before: bool, of: tuple[str, str]
) -> Seen:
    """What ranks hold before a step or after it, where every `holders`th rank holds the same part."""
    seen = {}
    for rank, named in held.items():
        parts = {name: (rank % holders, f"{content:016x}") for name, (content, _) in named.items()}
        marks = {
            name: PartMark(writes=writes, parity=content, bits=ELEMENT) for name, (content, writes) in named.items()
        }
        what = {field + "_before" * before: value for field, value in zip(of, (parts, marks), strict=True)}
        seen[rank] = StepSeen(step=step, forwards=step + 1, since=0, weights="", after="", **what)  # type: ignore[arg-type]
    return seen


def judged(
    *changes: tuple[int, str, Held],
    ranks: int = 4,
    holders: int = 2,
    steps: int = 1,
    of: tuple[str, str] = WEIGHTS,
) -> WeightsWritten | StepNotReproducible | None:
    """What is said where all parts were 0 and written once, and these ones changed in the next `steps`."""
    were: dict[int, dict[str, Held]] = {rank: {"a": (0, 1), "b": (0, 1)} for rank in range(ranks)}
    now = {rank: dict(named) for rank, named in were.items()}
    for rank, name, held in changes:
        now[rank][name] = held
    return parts_written(
        moment(4 + steps, now, holders=holders, before=True, of=of),
        moment(4, were, holders=holders, before=False, of=of),
    )


@pytest.mark.parametrize("of", [WEIGHTS, STATE], ids=["weights", "state"])
@pytest.mark.parametrize("holders", [2, 4], ids=["replicated", "fully sharded"])
def test_a_bit_that_no_operation_wrote_is_the_hardware(holders: int, of: tuple[str, str]) -> None:
    found = judged((2, "b", (1 << 40, 1)), holders=holders, of=of)
    assert isinstance(found, StepNotReproducible)
    assert (found.at, found.ranks, found.tensors, found.bits) == (Corrupted.PART, (2,), ("b",), (8,))


def test_one_element_may_differ_in_several_bits_where_a_replica_kept_it() -> None:
    found = judged((2, "b", (0b101 << 40, 1)))
    assert isinstance(found, StepNotReproducible)
    assert found.bits == (8, 10)
    assert judged((2, "b", (0b101 << 40, 1)), holders=4) is None  # a clamp through `.data` may do that


@pytest.mark.parametrize(
    "changes",
    [
        [(2, "b", (1 << 40, 2))],  # counted
        [(2, "b", (1 << 40 | 1, 1))],  # two elements
        [(2, "a", (1, 1)), (2, "b", (1, 1))],  # two parameters
    ],
)
def test_what_one_replica_wrote_is_code(changes: list[tuple[int, str, Held]]) -> None:
    found = judged(*changes)
    assert isinstance(found, WeightsWritten)
    assert (found.ranks, found.total) == ((2,), 2)
    assert found.tensors == tuple(name for _, name, _ in changes)
    assert judged(*changes, holders=4) is None
    assert judged(*changes, of=STATE) is None, "two holders of state that differ are DDP507"


def test_what_all_replicas_of_a_part_wrote_alike_is_left_alone() -> None:
    assert judged((0, "a", (9, 2)), (2, "a", (9, 2))) is None
    assert judged(*[(rank, "a", (9, 2)) for rank in range(4)]) is None


def test_nothing_is_said_across_a_step_that_was_not_audited() -> None:
    assert judged((2, "b", (1 << 40, 1)), steps=2) is None
    assert judged() is None

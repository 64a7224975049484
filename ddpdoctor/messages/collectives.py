"""Calls of ranks in words: what each did, at which line, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.analysis.collectives.recorders.matching import agreed_shape, shape
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, IssuedCall, Mismatch
from ddpdoctor.grouping import grouped
from ddpdoctor.messages.conditions import condition_text
from ddpdoctor.model import Where, group_ranks, verb

FROM_TWO_THREADS = "two threads of a rank call collectives of this group, so their order is nondeterministic"
OF_A_YOUNG_DUMP = (
    "nothing, if this rank loads data, evaluates or saves a checkpoint here: dump again in a minute, and see whether it is still "
    "the same call"
)
GROUP_OF_ITS_OWN = "give the thread a process group of its own (`dist.new_group()`) that nothing else uses"
SHOWN_TENSORS = 3
MINUTES_FROM = 120.0  # seconds above which nobody reads seconds


def duration(seconds: float) -> str:
    """`6.2 s`, `14 min` or `3.5 h`."""
    if seconds < MINUTES_FROM:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 60 * MINUTES_FROM else f"{seconds / 3600:.1f} h"


def called(issued: Mapping[int, IssuedCall], ranks: Iterable[int]) -> str:
    """What these ranks called, by rank: `ranks 1-2 called all_reduce #9 and rank 3 called barrier #9`."""
    return " and ".join(f"{group_ranks(group)} called {name}" for name, group in _by_name(issued, ranks).items())


def names(issued: Mapping[int, IssuedCall], ranks: Iterable[int]) -> str:
    """The calls of these ranks, each once: `all_reduce #9`."""
    return " or ".join(_by_name(issued, ranks))


def of_shape(shapes: Sequence[Sequence[Sequence[int]]]) -> str:
    """The shapes of all tensors of some calls: `[10] + [20, 3]`."""
    tensors = [tensor for call in shapes for tensor in call]
    shown = " + ".join(f"[{', '.join(map(str, tensor))}]" for tensor in tensors[:SHOWN_TENSORS])
    return shown + (f" + {len(tensors) - SHOWN_TENSORS} more" if len(tensors) > SHOWN_TENSORS else "") or "none"


def names_with_shapes(issued: Mapping[int, IssuedCall], ranks: Iterable[int]) -> str:
    """The same calls with what they were given: `all_reduce #9 with a tensor of shape [10]`.

    Of calls that differ in the number of rows alone, which ranks exchange, the first.
    """
    calls = {(one.name, agreed_shape(one.calls)): one for rank in reversed([*ranks]) if (one := issued.get(rank))}
    return " or ".join(
        f"{one.name} with a tensor of shape {of_shape(shape(one.calls))}" for one in reversed(calls.values())
    )


def witnesses(
    issued: Mapping[int, IssuedCall], ranks: Iterable[int], *, minority: Iterable[int] = (), minority_note: str = ""
) -> list[Where]:
    """Where these ranks made their calls: the call and how long each group of ranks waits; `minority_note` for the `minority`."""
    groups: dict[tuple[object, str, bool], list[IssuedCall]] = {}
    suspects = {*minority}
    for rank in ranks:
        if rank in issued and issued[rank].place is not None:
            groups.setdefault((issued[rank].place, issued[rank].name, rank in suspects), []).append(issued[rank])
    return [
        _where(one, _note(group, minority_note if in_minority else ""))
        for (_, _, in_minority), group in groups.items()
        for one in group
    ]


def unplaced(issued: Mapping[int, IssuedCall], ranks: Iterable[int]) -> list[str]:
    """The same in lines, for ranks whose recorder kept no stacks."""
    groups = grouped(
        (issued[rank].name, issued[rank]) for rank in ranks if rank in issued and issued[rank].place is None
    )
    return [f"{group_ranks([one.rank for one in group])}: {_note(group, '')}" for group in groups.values()]


def aftermath(group: GroupTimeline, mismatch: Mismatch) -> str:
    """`, also in 3 later calls, without an error`: what became of a mismatch that all ranks came past."""
    again = f", also in {mismatch.more} later calls" if mismatch.more else ""
    came_past = all(issued.seq > mismatch.seq for issued in group.last.values())
    silent = ", without an error" if came_past and all(one.done for one in mismatch.issued.values()) else ""
    return again + silent


def condition_note(comparison: Comparison) -> str:
    """`inside `if rank == 0` (train.py:85)`, or that the others are; nothing where no condition tells the ranks apart."""
    if comparison.condition is None or comparison.frame is None:
        return ""
    note = condition_text(comparison.condition, comparison.frame.file)
    return f"the others are {note}" if comparison.relation is Relation.UNCONDITIONAL else note


def _by_name(issued: Mapping[int, IssuedCall], ranks: Iterable[int]) -> dict[str, list[int]]:
    return grouped((issued[rank].name, rank) for rank in sorted(ranks) if rank in issued)


def _where(issued: IssuedCall, note: str) -> Where:
    place = issued.place
    assert place is not None
    return Where.at(place, rank=issued.rank, note=note)


def _note(group: Sequence[IssuedCall], extra: str) -> str:
    seconds = [one.seconds for one in group if one.seconds is not None and not one.done]
    waits = f"{verb(group, 'waits', 'wait')} {duration(max(seconds))}" if seconds else ""
    return ", ".join(filter(None, (group[0].name, extra, waits)))

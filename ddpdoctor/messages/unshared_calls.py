"""What a message says of a call that only some ranks of a group made."""

from __future__ import annotations

from collections.abc import Mapping

from ddpdoctor.analysis.collectives.groups.desync import Cause, Desync
from ddpdoctor.analysis.collectives.places.relations import Relation
from ddpdoctor.evidence.ranks import CollectiveCall
from ddpdoctor.grouping import grouped
from ddpdoctor.messages.collectives import names, names_with_shapes
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import group_ranks, verb


def sentence(desync: Desync, earlier: Mapping[int, CollectiveCall], *, tied: bool) -> str:
    """The call that only one side made, and what became of both; `earlier` is the first such call, by rank, where it is known."""
    if desync.counts:
        return _of_counts(desync, tied=tied)
    minority, majority = group_ranks(desync.minority), group_ranks(desync.majority)
    if earlier:
        first = " or ".join(dict.fromkeys(f"{call.op} #{call.seq}" for call in earlier.values()))
        return (
            f"{minority} called {first} that {majority} did not call; later calls were mispaired until {majority} ended with "
            "exit code 0"
        )
    ours, theirs = (names(desync.issued, ranks) for ranks in (desync.minority, desync.majority))
    if ours == theirs and desync.cause is Cause.MISSING:
        ours, theirs = (names_with_shapes(desync.issued, ranks) for ranks in (desync.minority, desync.majority))
    of_cause = _of_missing if desync.cause is Cause.MISSING else _of_extra
    return of_cause(desync, ours, theirs) + tie_note(tied=tied)


def _of_missing(desync: Desync, ours: str, theirs: str) -> str:
    """The call that the minority left out, and what it called instead."""
    minority, majority = group_ranks(desync.minority), group_ranks(desync.majority)
    left_out = f"{minority} never called {theirs} that {majority} {verb(desync.majority, 'calls', 'call')}"
    if desync.ended:
        return f"{left_out}: {verb(desync.ended, 'it', 'they')} ended with exit code 0"
    at = "was one at another line" if ours == theirs else f"was {ours}"
    return f"{left_out}: the next that {verb(desync.minority, 'it', 'they')} called {at}" if ours else left_out


def _of_extra(desync: Desync, ours: str, theirs: str) -> str:
    """The call that the minority alone made."""
    minority, majority = group_ranks(desync.minority), group_ranks(desync.majority)
    made = f"{minority} called {ours} that {majority} never {verb(desync.majority, 'calls', 'call')}"
    if desync.ended:
        return f"{made}: {verb(desync.ended, 'it', 'they')} ended with exit code 0"
    if desync.offset is not None and desync.met is not None:
        count = desync.offset.extra
        extra = f"1 extra call ({ours})" if count == 1 else f"{count} extra calls ({ours}, ...)"
        end = f"{names(desync.met, desync.minority)} met {names(desync.met, desync.majority)}"
        return f"{minority} issued {extra}; later calls were mispaired until {end}"
    loop = desync.comparison.loop
    if desync.comparison.relation is Relation.WITHIN and desync.comparison.again and loop is not None:
        made = (
            f"{minority} called {ours} where {majority} called {theirs}: "
            f"{verb(desync.minority, 'it makes', 'they make')} a turn of `{loop.head}` more, or left that call out before"
        )
    return made


def _of_counts(desync: Desync, *, tied: bool) -> str:
    by_count = grouped((desync.counts[rank], rank) for rank in (*desync.minority, *desync.majority))
    group = f"group {desync.group.name}" if desync.group.name else "the default group"
    (first, ranks), *others = by_count.items()
    rest = " and ".join(f"{group_ranks(same)} {count}" for count, same in others)
    return (
        f"{group_ranks(ranks)} called {first} collectives of {group} and {rest}, and all ended with exit code 0: calls were "
        f"mispaired, or had no partner{tie_note(tied=tied)}"
    )


def elsewhere(desync: Desync) -> str:
    """`; the same holds for rank 15 in group 4`, of groups in which other ranks did the same."""
    others = [f"{group_ranks(one.minority)} in {one.group.name}" for one in desync.alike]
    return f"; the same holds for {' and '.join(others)}" if others else ""

"""Calls of a flight recorder that were issued as one batch: the entry that closes the batch has the state of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ddpdoctor.evidence.recorder import Call, ProcessGroup, State
from ddpdoctor.ranks.fr_older_versions import END_OF_BATCH
from ddpdoctor.ranks.shared_columns import shared_states

Kind: TypeAlias = tuple[int, bool]
"""The position of a group, and whether a call in it is a send or a receive: the recorder counts both kinds apart."""


def with_batches(
    states: tuple[State, ...],
    groups: Sequence[ProcessGroup],
    calls: Sequence[Call],
    column: Sequence[int],
    seq: Sequence[int],
    collective: Sequence[int],
) -> tuple[State, ...]:
    """The states, where calls that were issued as one batch have that of the entry that closes it.

    Their own entries stay `scheduled` for ever. A dump of active entries alone has dropped the closing entry of a batch that
    is through: the group's status tells that it is. A send that is not through by its entry and is by the status of its group,
    or by a collective behind it, is a batch of its own. That status is of a collective or of a send, whichever ended last: it
    is believed only where the collectives that the group had made at this send, and one that may follow it, do not reach the
    same number.
    """
    complete = State.DONE in states or not any(group.last_completed for group in groups)
    if complete and not any(call.op == END_OF_BATCH or call.point_to_point for call in calls):
        return states
    kinds = [(calls[number].group, calls[number].point_to_point) for number in column]
    keys = [*zip(kinds, seq, strict=True)]
    closed = {
        key: state for key, number, state in zip(keys, column, states, strict=True) if calls[number].op == END_OF_BATCH
    }
    batching = {kind for kind, _ in closed} | {kind for (kind, _), entries in Counter(keys).items() if entries > 1}
    batching |= {
        (group, between)
        for ((group, between), number), state, made in zip(keys, states, collective, strict=True)
        if between and state is State.SCHEDULED and groups[group].last_completed == number > made + 1
    }
    of_active = State.DONE not in states
    passed = _passed(groups, keys) if of_active else {}
    batching |= passed.keys()
    if not batching:
        return states
    through = {
        kind: groups[kind[0]].last_completed or 0
        for kind in (batching if of_active else ())
        if _counts(groups[kind[0]], kind, keys)
    } | passed

    def state_of(key: tuple[Kind, int], state: State) -> State:
        kind, number = key
        if kind not in batching or state is State.DONE:
            return state
        is_through = state is State.SCHEDULED and number <= through.get(kind, 0)
        return closed.get(key, State.DONE if is_through else state)

    return shared_states(tuple(map(state_of, keys, states)))


def _passed(groups: Sequence[ProcessGroup], keys: Iterable[tuple[Kind, int]]) -> dict[Kind, int]:
    """The number of the last send of each group that called a collective behind it, which is through.

    The dump is of active entries alone: the status of the group counts the collective, as its number is lower than that of the
    send, and there is no entry of it.
    """
    last = _last_numbers(keys)
    return {
        (group, between): seq
        for (group, between), seq in last.items()
        if between and (group, False) not in last and (groups[group].last_enqueued or seq) < seq
    }


def _counts(group: ProcessGroup, kind: Kind, keys: Iterable[tuple[Kind, int]]) -> bool:
    """Whether the status of this group counts calls of this kind: of the one that was enqueued last."""
    last = _last_numbers(keys)
    enqueued = group.last_enqueued or 0
    return enqueued == last[kind] if (kind[0], not kind[1]) in last else enqueued >= last[kind]


def _last_numbers(keys: Iterable[tuple[Kind, int]]) -> dict[Kind, int]:
    """The number of the last call of each kind."""
    last: dict[Kind, int] = {}
    for kind, seq in keys:
        last[kind] = max(seq, last.get(kind, 0))
    return last

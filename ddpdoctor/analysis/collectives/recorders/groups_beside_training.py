"""The process groups in which a thread beside the training makes calls and goes on while the training hangs.

A heartbeat, metrics or the barrier of an asynchronous checkpoint: such a group says nothing of the hang. Its calls fall anywhere
between those of the training, so that they are no points at which the programs of two ranks can be compared either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ddpdoctor.analysis.collectives.recorders.multithreaded import began_in_a_thread
from ddpdoctor.analysis.collectives.recorders.replaced_groups import Columns, without_groups
from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.recorder import FlightRecord, State

LATER_NS = 1_000_000_000  # after the training came to stand, by one clock: more than calls of two threads overlap


def without_groups_beside(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """The records without the groups that go on beside the training, and without what was called in them.

    All calls of such a group come from threads of the program, and those of the others do not; or the reverse, where it is the
    training that has a thread of its own. On each rank that waits in another group it has completed calls that are younger.
    """
    if not any(began_in_a_thread(entry.value, stack) for entry in records for stack in entry.value.stacks):
        return records
    each = [_groups_of(entry.value) for entry in records]
    beside = _beside(each, in_a_thread=True) or _beside(each, in_a_thread=False)
    if not beside:
        return records
    shared: dict[Columns, Columns] = {}
    return PerRank(
        tuple(Entry(entry.rank, entry.host, _without(entry.value, beside, shared)) for entry in records),
        launched=records.launched,
    )


@dataclass(slots=True)
class _Group:
    """What one rank's record shows of a group."""

    threads: set[bool] = field(default_factory=set)
    """Whether its calls were made in a thread of the program's, of those that show where they were made."""
    waits_since: int | None = None
    """When the oldest call that is not complete was made."""
    completed: int = 0
    """When the youngest call that is complete was made."""


def _groups_of(record: FlightRecord) -> dict[str, _Group]:
    found: dict[str, _Group] = defaultdict(_Group)
    threads = [began_in_a_thread(record, stack) if stack else None for stack in record.stacks]
    names = [record.groups[call.group].name for call in record.calls]
    for call, stack, state, created in zip(record.call, record.stack, record.state, record.created_ns, strict=True):
        group, thread = found[names[call]], threads[stack]
        if thread is not None:
            group.threads.add(thread)
        if state is State.DONE:
            group.completed = max(group.completed, created)
        else:
            group.waits_since = min(created, group.waits_since or created)
    return found


def _beside(each: Collection[dict[str, _Group]], *, in_a_thread: bool) -> set[str]:
    """The groups all of whose calls were made in threads of this kind, and that go on while another group stands."""
    kinds: dict[str, set[bool]] = defaultdict(set)
    for groups in each:
        for name, group in groups.items():
            kinds[name] |= group.threads
    found = {name for name, kind in kinds.items() if kind == {in_a_thread}}
    others = kinds.keys() - found
    if not any(in_a_thread not in kinds[name] for name in others):
        return set()  # nothing is known of the threads of the others
    return {name for name in found if all(_goes_on(each, name, others))}


def _goes_on(each: Collection[dict[str, _Group]], name: str, others: Collection[str]) -> Iterator[bool]:
    """Of each rank that waits in another group whether this one went on since; one False where no rank waits."""
    waits = False
    for groups in each:
        since = min((at for other, one in groups.items() if other in others and (at := one.waits_since)), default=None)
        if since is not None and name in groups:
            waits = True
            yield groups[name].completed > since + LATER_NS
    yield waits


def _without(record: FlightRecord, names: Collection[str], shared: dict[Columns, Columns]) -> FlightRecord:
    left_out = {place for place, group in enumerate(record.groups) if group.name in names}
    return without_groups(record, left_out, shared) if left_out else record

"""A decoded flight-recorder dump into a `FlightRecord`: NCCL or gloo, from pickle or JSON, versions 2.0 to 2.10."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from marshal import dumps, loads
from operator import itemgetter
from typing import Any, TypeVar

from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.recorder import Call, FlightRecord, State
from ddpdoctor.ranks.fr_batches import with_batches
from ddpdoctor.ranks.fr_entry_layouts import NUMBERS
from ddpdoctor.ranks.fr_groups import UsedGroup, description_of, groups_of, statuses_of
from ddpdoctor.ranks.fr_halves import issued_halves
from ddpdoctor.ranks.fr_older_versions import PEERS, TENSORS, as_written_now, operation_of
from ddpdoctor.ranks.fr_repeats import Entries
from ddpdoctor.ranks.shared_columns import SHARED, shared, shared_states
from ddpdoctor.whole_numbers import integers

VERSIONS = re.compile(r"2\.\d{1,2}")
T = TypeVar("T")
MARSHAL_VERSION = 2  # the last in which equal content always gives equal bytes
BACKENDS_THAT_NEVER_COMPLETE = ("gloo",)  # their entries stay `scheduled`; `retired` is all they say
MOST_AT_ONCE = 256  # entries that are compared in one go

_CONTENT = ("process_group", "pg_id", "profiling_name", "is_p2p", "timeout_ms")
_KIND = (*_CONTENT, *TENSORS, "frames")
_COURSE = (*NUMBERS, "state", "retired")
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset})
_STATES = {"scheduled": State.SCHEDULED, "started": State.STARTED, "completed": State.DONE}


def record_of(
    document: Any,  # noqa: ANN401 - hostile until parsed
    *,
    taken_at: float | None = None,
    entries: Entries | None = None,
) -> FlightRecord:
    """The record in a dump that has been decoded to containers and scalars, by whichever door it came.

    With `entries` these are its entries.

    Raises:
        UndecidedError: it is no dump, or not of a version that we read; the message says what is wrong with it.
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("version"), str):
        raise UndecidedError('it is not a flight-recorder dump: it has no "version"')
    if not VERSIONS.fullmatch(document["version"]):
        raise UndecidedError(f"it is a dump of version {document['version'][:20]!r}; 2.0 to 2.10 can be read")
    decoded = entries.decoded if entries else document.get("entries", [])
    if not isinstance(decoded, list) or not set(map(type, decoded)) <= {dict}:
        raise UndecidedError("its entries are not a list of records")
    try:
        return _parsed(document, decoded, entries, taken_at)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise UndecidedError(f"its entries are damaged ({type(error).__name__}: {str(error)[:100]})") from None


def _parsed(
    document: Mapping[str, Any], decoded: list[dict[str, Any]], ring: Entries | None, taken_at: float | None
) -> FlightRecord:
    given = decoded[0].keys() if decoded else ()
    if decoded and not decoded[0].keys() >= {*_KIND, *_COURSE}:
        decoded = [*as_written_now(decoded)]
    columns = _columns(decoded)
    collective, between, created, completed = ((ring.numbers if ring else columns)[name] for name in NUMBERS)
    kinds, firsts = _kinds([columns[name] for name in _KIND])
    calls, call_of = _distinct(decoded[first] for first in firsts)
    frames, stacks, stack_of = _stacks(decoded[first]["frames"] for first in firsts)
    groups: dict[UsedGroup, int] = {}
    parsed = _calls(calls, groups)
    own_calls = [call_of[kind] for kind in kinds]
    states = _states(columns["state"], columns["retired"], calls, own_calls)
    call = shared(_spread(own_calls, ring))
    seq = shared(_sequence(collective, between, parsed, call))
    known = groups_of(groups, document, issued_halves(decoded, ring, parsed, call, seq, collective))
    return FlightRecord(
        version=document["version"],
        taken_at=taken_at,
        noted_at=_noted_at(decoded) if "retired" in given else None,
        groups=known,
        statuses=statuses_of(document.get("pg_status"), known),
        calls=parsed,
        frames=frames,
        stacks=stacks,
        lost=int(decoded[0]["record_id"]) if decoded else 0,
        call=call,
        seq=seq,
        stack=shared(_spread([stack_of[kind] for kind in kinds], ring)),
        state=with_batches(shared_states(_spread(states, ring)), known, parsed, call, seq, collective),
        created_ns=integers(created),
        completed_ns=integers([moment or 0 for moment in completed]) if any(completed) else (),
    )


def _noted_at(entries: Iterable[Mapping[str, Any]]) -> float | None:
    """When the recorder wrote these: a watchdog notes the end of a call as it retires it, and the dump that of others."""
    ended = (one["time_discovered_completed_ns"] or 0 for one in entries if not one["retired"])
    last = max(integers(ended), default=0)
    return last / 1e9 if last else None


def _spread(column: Sequence[T], ring: Entries | None) -> tuple[T, ...]:
    """The values of all entries, given those of the entries that were decoded."""
    return tuple(column) if ring is None else tuple(map(column.__getitem__, ring.decoded_as))


def _refuse_nested(fields: Iterable[Any]) -> None:
    """Containers in containers in a field of a call: what is shared in them can be endless once it is written out."""
    for value in fields:
        if type(value) in _CONTAINERS:
            for inner in value:
                if type(inner) in _CONTAINERS and not _CONTAINERS.isdisjoint(map(type, inner)):
                    raise TypeError("a field holds containers in containers")


def _columns(entries: list[dict[str, Any]]) -> dict[str, Sequence[Any]]:
    """The values of each field of `_KIND` and `_COURSE`, one per entry.

    All fields are read at once: an entry that has been left is no longer in the processor's cache. They are asked for with
    the dump's own strings, which a dictionary finds by their address and need not compare.
    """
    fields = (*_KIND, *_COURSE)
    if not entries:
        return dict.fromkeys(fields, ())
    own = {key: key for key in entries[0]}
    rows = map(itemgetter(*(own[name] for name in fields)), entries)
    return dict(zip(fields, zip(*rows, strict=True), strict=True))


def _kinds(columns: Sequence[Sequence[Any]]) -> tuple[list[int], list[int]]:
    """Each entry's number among those that differ in content or stack, and the first entry of each number.

    A training loop is periodic: entries are first compared, many at once, with those that followed when the program was here
    before, which is ten times cheaper than to look each one up. What they are compared with has been checked: then the
    comparison is short, whatever they hold.
    """
    numbers: dict[tuple[bytes, tuple[int, ...]], int] = {}
    checked: set[int] = set()
    firsts: list[int] = []
    found: list[int] = []
    latest: dict[int, int] = {}
    before, block = 0, 1
    while (here := len(found)) < len(columns[0]):
        length = min(block, len(columns[0]) - here)
        if before < here and all(one[here : here + length] == one[before : before + length] for one in columns):
            period = found[before:]
            found += (period * (length // len(period) + 1))[:length]
            before, block = before + length, min(2 * length, MOST_AT_ONCE)
            continue
        *fields, stack = (one[here] for one in columns)
        _refuse_nested(fields)
        places = tuple(map(id, stack))
        if not checked.issuperset(places):
            for frame in stack:
                if id(frame) not in checked and not _CONTAINERS.isdisjoint(map(type, frame.values())):
                    _refuse_nested(frame.values())
            checked.update(places)
        number = numbers.setdefault((dumps(fields, MARSHAL_VERSION), places), len(firsts))
        if number == len(firsts):
            firsts.append(here)
        before, block = latest.get(number, here) + 1, 1
        latest[number] = here
        found.append(number)
    return found, firsts


def _distinct(entries: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[int]]:
    """The entries that differ in content, and the number of each entry's content among them."""
    what = itemgetter(*_CONTENT, *TENSORS)
    numbers: dict[bytes, int] = {}
    kept: list[dict[str, Any]] = []
    column = []
    for entry in entries:
        number = numbers.setdefault(dumps(what(entry), MARSHAL_VERSION), len(kept))
        if number == len(kept):
            kept.append(entry)
        column.append(number)
    return kept, column


def _stacks(
    stacks: Iterable[Sequence[Mapping[str, Any]]],
) -> tuple[tuple[Frame, ...], tuple[tuple[int, ...], ...], list[int]]:
    """The distinct frames, the distinct stacks as positions in them, and the number of each stack given."""
    by_ids: dict[tuple[int, ...], int] = {}
    column = []
    objects: dict[int, Mapping[str, Any]] = {}
    for stack in stacks:
        ids = tuple(map(id, stack))
        if ids not in by_ids:
            by_ids[ids] = len(by_ids)
            objects.update(zip(ids, stack, strict=True))
        column.append(by_ids[ids])
    places = [(str(one["filename"]), int(one["line"]), str(one["name"])) for one in objects.values()]
    frames = {place: number for number, place in enumerate(dict.fromkeys(places))}
    known = dict(zip(objects, [frames[place] for place in places], strict=True))
    numbers: dict[tuple[int, ...], int] = {}
    number_of = [numbers.setdefault(tuple([known[one] for one in ids]), len(numbers)) for ids in by_ids]
    return _frames(tuple(frames)), shared(tuple(numbers)), [number_of[one] for one in column]


@lru_cache(maxsize=SHARED)
def _frames(places: tuple[tuple[str, int, str], ...]) -> tuple[Frame, ...]:
    return tuple(Frame(file=file, line=line, function=name) for file, line, name in places)


def _calls(entries: Iterable[Mapping[str, Any]], groups: dict[UsedGroup, int]) -> tuple[Call, ...]:
    """What these entries called, and in `groups` the position of each group that they name."""
    written = []
    for entry in entries:
        backend, operation = operation_of(entry["profiling_name"])
        group = groups.setdefault(UsedGroup(backend, *_group_name(entry), str(entry["pg_id"])), len(groups))
        written.append((group, operation, *map(entry.__getitem__, ("is_p2p", "timeout_ms", *TENSORS))))
    return _calls_in(dumps(written, MARSHAL_VERSION))


@lru_cache(maxsize=SHARED)
def _calls_in(written: bytes) -> tuple[Call, ...]:
    """The calls, of which ranks of one job make the same, though in other groups."""
    return tuple(_call(*fields) for fields in loads(written))  # noqa: S302 - written two lines above


def _call(
    group: int,
    operation: str,
    between: object,
    timeout: object,
    sizes: Iterable[Iterable[int]],
    dtypes: Iterable[object],
    out_sizes: Iterable[Iterable[int]],
    out_dtypes: Iterable[object],
) -> Call:
    peers = PEERS.fullmatch(operation)
    source, target = (peers["from"] or peers["of"], peers["to"] or peers["at"]) if peers else (None, None)
    return Call(
        group=group,
        op=operation.partition(" ")[0],
        point_to_point=bool(peers) if between is None else bool(between),
        source=int(source) if source else None,
        target=int(target) if target else None,
        input_sizes=_sizes(sizes),
        input_dtypes=tuple(map(str, dtypes)),
        output_sizes=_sizes(out_sizes),
        output_dtypes=tuple(map(str, out_dtypes)),
        timeout_ms=timeout if isinstance(timeout, int) else None,
    )


def _group_name(entry: Mapping[str, Any]) -> tuple[str, str]:
    name, description = entry["process_group"]
    return str(name or entry["pg_id"]), description_of(description)


def _sizes(tensors: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(integers(tensor) for tensor in tensors)


def _sequence(
    collective: Sequence[Any], between: Sequence[Any], parsed: Sequence[Call], column: Sequence[int]
) -> tuple[int, ...]:
    if not any(call.point_to_point for call in parsed):
        return integers(collective)
    return integers(
        p2p if parsed[number].point_to_point else seq
        for seq, p2p, number in zip(collective, between, column, strict=True)
    )


def _states(
    states: Sequence[Any], retired: Sequence[Any], calls: list[dict[str, Any]], column: Sequence[int]
) -> tuple[State, ...]:
    """How far each entry got: on NCCL `retired` without `completed` is a call that timed out."""
    found = tuple(map(_STATES.__getitem__, states))
    silent = [call["profiling_name"].startswith(BACKENDS_THAT_NEVER_COMPLETE) for call in calls]
    if not any(silent):
        return found
    return tuple(
        State.DONE if silent[number] and gone else state
        for number, gone, state in zip(column, retired, found, strict=True)
    )

"""Tracks of all ranks to one comparison of their tensors, at the first step where some differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ddpdoctor.analysis.majority import vote_of
from ddpdoctor.analysis.replicas.aligned_steps import ByRank, aligned, step_of
from ddpdoctor.analysis.replicas.buffers_of_ranks import BuffersOfRanks
from ddpdoctor.analysis.replicas.comparison import (
    order_difference,
    parts_apart,
    sides_of,
    structure_differences,
)
from ddpdoctor.analysis.replicas.last_writes import LastWritten, last_states, last_written
from ddpdoctor.analysis.replicas.local_steps import averages_weights, comparable, is_just_averaged
from ddpdoctor.analysis.replicas.replica_groups import of_each_group
from ddpdoctor.analysis.replicas.sharded_optimizers import Sharding, sharding
from ddpdoctor.analysis.replicas.step_callsites import lines_at, lines_that_wrote, own_lines
from ddpdoctor.analysis.replicas.table_diff import compare_digests, compare_tables
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.replicas import (
    Replicas,
    Role,
    StructureDifference,
    ValueDifference,
)
from ddpdoctor.evidence.training_trace import Table, TensorKind, Track, model_prefix
from ddpdoctor.model import SkipCheck
from ddpdoctor.whole_numbers import whole_number


def derive(tracks: PerRank[Track]) -> Replicas:
    """The structure before wrapping, then the values at the start, or at the first step where they differ."""
    each = of_each_group(by_rank(tracks), _of_replicas)
    apart = [one for one in each if one.structure or one.values]
    return min(apart or each, key=_when)


def _when(one: Replicas) -> tuple[bool, int]:
    """What orders comparisons: buffers that ranks may keep for themselves come last, then the step decides."""
    return one.own_buffers, -1 if one.step is None else one.step


def _of_replicas(by_rank: Mapping[int, Track]) -> Replicas:
    if all(track.start is None and not track.steps for track in by_rank.values()):
        raise SkipCheck("no rank wrapped a model in DistributedDataParallel or stepped an optimizer")
    structure = _structure({rank: track.kinds for rank, track in by_rank.items()})
    steps = aligned(by_rank)
    total = max((track.steps_made or 0 for track in by_rank.values()), default=0) or None
    starts = {rank: _table(track, track.start) for rank, track in by_rank.items()}
    values = compare_tables(starts)
    if values or structure:
        wraps = {rank: _wrap_line(track, (structure or values)[0].name) for rank, track in by_rank.items()}
        return _replicas(by_rank, starts, structure=structure, values=values, stepped=False, lines=wraps)
    left = _left(by_rank, steps, total)
    if averages_weights(by_rank, steps):
        return _between_averagings(by_rank, comparable(by_rank, steps), total) or left or _replicas(
            by_rank, starts, total=total
        )  # fmt: skip
    buffers = BuffersOfRanks(by_rank)
    own: Replicas | None = None
    earlier: ByRank = {}
    for seen in steps:
        if left is not None and (left.step or 0) <= step_of(seen):
            return left
        found = _before_step(by_rank, seen, starts) or _after_step(by_rank, seen, earlier, buffers, total)
        if found is not None:
            return found
        if own is None and buffers.own:
            own = _own_buffers(by_rank, seen, buffers.own, total)
        earlier = seen
    return left or _left_state(by_rank, earlier, total) or own or _replicas(
        by_rank, starts, stepped=bool(steps), total=total
    )  # fmt: skip


def _before_step(by_rank: Mapping[int, Track], seen: ByRank, starts: Mapping[int, Table]) -> Replicas | None:
    """Parts of parameters that differ before the first step."""
    before = _compare_parts({rank: one.parts_before for rank, one in seen.items()})
    if before and not any(one.step for one in seen.values()):
        lines = {rank: next(iter(one.setting_lines.values()), None) for rank, one in seen.items()}
        return replace(_replicas(by_rank, starts, values=before, stepped=False, lines=lines), on_a_mesh=True)
    return None


def _after_step(
    by_rank: Mapping[int, Track], seen: ByRank, earlier: ByRank, buffers: BuffersOfRanks, total: int | None
) -> Replicas | None:
    """Weights, buffers or optimizer states that differ after a step; `earlier` is the step before it."""
    shared = sharding(seen, by_rank)
    if shared is not None:
        unsent = _unsent(by_rank, seen, earlier, total)
        if unsent is not None:
            return unsent
    after = _tables_after(by_rank, seen, shared)
    states = (
        *(_states(seen) if shared is None else ()),
        *_compare_parts({rank: one.state_parts_before for rank, one in seen.items()}, "optimizer state"),
    )
    absent = _absent_states(seen) if shared is None else ()
    faults = buffers.faults(seen, compare_digests("buffer", {rank: one.buffers for rank, one in seen.items()}))
    found = (
        *compare_tables(after),
        *faults,
        *states,
        *_compare_parts({rank: one.parts for rank, one in seen.items()}),
    )
    if not found and not absent:
        return None
    return replace(
        _replicas(
            by_rank, after, structure=absent, values=found, step=step_of(seen), total=total, lines=lines_at(seen)
        ),
        in_forward=True,
        written={"buffer": _buffer_lines(seen, faults), "optimizer state": _state_lines(seen, states)},
        loads={rank: one.loaded for rank, one in seen.items() if one.loaded is not None},
        shadowed={rank: one.shadowed for rank, one in seen.items() if one.shadowed},
    )


def _own_buffers(
    by_rank: Mapping[int, Track], seen: ByRank, values: tuple[ValueDifference, ...], total: int | None
) -> Replicas:
    """Buffers that differ, and that ranks may keep for themselves."""
    tables = _tables_after(by_rank, seen, sharding(seen, by_rank))
    lines = lines_at(seen, "forward")
    found = _replicas(by_rank, tables, values=values, step=step_of(seen), total=total, lines=lines)
    return replace(found, in_forward=True, own_buffers=True)


def _tables_after(by_rank: Mapping[int, Track], seen: ByRank, shared: Sharding | None) -> dict[int, Table]:
    """By rank, its weights after a step, without those of which each rank holds another part."""
    tables = {rank: _table(by_rank[rank], one.after) for rank, one in seen.items()}
    return tables if shared is None else {rank: _without(table, shared.names) for rank, table in tables.items()}


def _unsent(tracks: Mapping[int, Track], seen: ByRank, before: ByRank, total: int | None) -> Replicas | None:
    """Weights that differ before the forward, where the program sends them to all ranks after each step.

    The first was not sent where those that do not step it hold what they held right after the step `before`.
    """
    tables = {rank: _table(tracks[rank], one.weights) for rank, one in seen.items()}
    values = compare_tables(tables)
    if not values:
        return None
    name = values[0].name
    shared = sharding(before, tracks) if before else None
    owners = shared.owners.get(name, ()) if shared is not None else ()
    kept = all(
        one.step == before[rank].following
        and tables[rank].digests.get(name) == _table(tracks[rank], before[rank].after).digests.get(name)
        for rank, one in seen.items()
        if owners and rank not in owners
    )
    found = _replicas(tracks, tables, values=values, step=step_of(seen), total=total, lines=lines_at(seen))
    return replace(found, steppers=owners if kept else ())


def _without(table: Table, names: Collection[str]) -> Table:
    return replace(table, digests={name: digest for name, digest in table.digests.items() if name not in names})


def _between_averagings(tracks: Mapping[int, Track], steps: Sequence[ByRank], total: int | None) -> Replicas | None:
    """The first averaging after which weights differ, or the first step before all averagings at which they do."""
    for seen in steps:
        tables = {rank: _table(tracks[rank], one.weights) for rank, one in seen.items()}
        values = compare_tables(tables)
        if values:
            averaged = is_just_averaged(seen)
            made = {rank: one.averaging.line for rank, one in seen.items() if one.averaging is not None}
            lines = made if averaged else lines_at(seen)
            found = _replicas(tracks, tables, values=values, step=step_of(seen), total=total, lines=lines)
            return replace(found, averaged=averaged)
    return None


def _left(tracks: Mapping[int, Track], steps: Sequence[ByRank], total: int | None) -> Replicas | None:
    """The weights with which models ended, the first of those that differ.

    All ranks had made as many steps, and were looked at in the same moment: after a step the program may put others in place.
    """
    last = sharding(steps[-1], tracks) if steps else None
    for ends in zip(*(track.left for track in tracks.values()), strict=False):
        tables = {rank: _table(track, end.weights) for (rank, track), end in zip(tracks.items(), ends, strict=True)}
        if last is not None and any(
            end.weights == one.after for end, one in zip(ends, steps[-1].values(), strict=True)
        ):
            tables = {rank: _without(table, last.names) for rank, table in tables.items()}
        if (
            len({(end.step, end.moment) for end in ends}) == 1
            and not any(end.local for end in ends)
            and (values := compare_tables(tables))
            and (written := last_written(values, tables, tracks, ends)) is not LastWritten.AFTER_TRAINING
        ):
            left = _replicas(tracks, tables, values=values, stepped=ends[0].step > 0, step=ends[0].step, total=total)
            return replace(left, may_be_put_in_place=written is LastWritten.UNKNOWN)
    return None


def _left_state(tracks: Mapping[int, Track], last: ByRank, total: int | None) -> Replicas | None:
    """The optimizer's state at the end, where the weights are equal and it is not."""
    states = last_states(tracks, last)
    values = compare_digests("optimizer state", states) if states and sharding(last, tracks) is None else ()
    ends = {track.left_state.step for track in tracks.values() if track.left_state is not None}
    return _replicas(tracks, {}, values=values, step=max(ends), total=total) if values else None


def _wrap_line(track: Track, name: str) -> Frame | None:
    """Where the model was wrapped to which the tensor `name` belongs: those of the second are called `model2:name`."""
    prefix = model_prefix(name)
    place = (whole_number(prefix[len("model") : -1]) or 0) - 1 if prefix else 0
    return track.wrap_lines[place] if 0 <= place < len(track.wrap_lines) else None


def _compare_parts(
    parts: Mapping[int, Mapping[str, tuple[int, str]]], role: Role = "parameter"
) -> tuple[ValueDifference, ...]:
    """The tensors on a mesh of which two ranks hold the same part with other bytes."""
    found = []
    for name in next(iter(parts.values()), {}):
        held: dict[int, dict[int, str]] = {}
        for rank, mine in parts.items():
            if name in mine:
                first, digest = mine[name]
                held.setdefault(first, {})[rank] = digest
        if apart := parts_apart(held):
            found.append(ValueDifference(role=role, name=name, sides=apart[0], other_parts=apart[1:]))
    return tuple(found)


def _states(seen: ByRank) -> tuple[ValueDifference, ...]:
    return compare_digests("optimizer state", {rank: one.state for rank, one in seen.items() if one.state is not None})


def _absent_states(seen: ByRank) -> tuple[StructureDifference, ...]:
    """The state that some ranks have before the step and others do not: one of them loaded it, or began anew."""
    held = {rank: one.state for rank, one in seen.items() if one.state is not None}
    names = dict.fromkeys(name for state in held.values() for name in state)
    presence = {
        name: {rank: "present" if name in state else "absent" for rank, state in held.items()} for name in names
    }
    return tuple(
        StructureDifference(role="optimizer state", name=name, aspect="presence", sides=sides_of(of_rank))
        for name, of_rank in presence.items()
        if len({*of_rank.values()}) > 1
    )


def _state_lines(seen: ByRank, states: Sequence[ValueDifference]) -> dict[int, Frame]:
    if not states:
        return {}
    return lines_that_wrote(seen, "state", vote_of([side.ranks for side in states[0].sides]).minority)


def _buffer_lines(seen: ByRank, faults: Sequence[ValueDifference]) -> dict[int, Frame]:
    """The lines that changed the first of `faults` on its ranks and not on all: each rank may change one as it should."""
    return own_lines(seen, f"buffer {faults[0].name}", faults[0].changed_on) if faults else {}


def _structure(kinds: Mapping[int, Sequence[TensorKind]]) -> tuple[StructureDifference, ...]:
    """What differs before any value, parameters first."""
    found: list[StructureDifference] = []
    roles: tuple[Role, ...] = ("parameter", "buffer")
    for role in roles:
        listed = {
            rank: {kind.name: kind.structure for kind in mine if kind.role == role} for rank, mine in kinds.items()
        }
        found += structure_differences(role, listed)
        order = order_difference(role, {rank: list(mine) for rank, mine in listed.items()})
        found += [order] if order is not None else []
    return tuple(found)


def _table(track: Track, key: str | None) -> Table:
    return track.tables.get(key or "", Table(digests={}))


def _replicas(
    tracks: Mapping[int, Track],
    tables: Mapping[int, Table],
    *,
    stepped: bool = True,
    structure: tuple[StructureDifference, ...] = (),
    values: tuple[ValueDifference, ...] = (),
    step: int | None = None,
    total: int | None = None,
    lines: Mapping[int, Frame | None] | None = None,
) -> Replicas:
    return Replicas(
        ranks=tuple(sorted(tracks)),
        tensors=max((len(table.digests) for table in tables.values()), default=0),
        bytes=0,
        method=next(iter(tracks.values())).method,
        stepped=stepped,
        step=step,
        steps=total,
        structure=structure,
        values=values,
        lines={rank: line for rank, line in (lines or {}).items() if line is not None},
        replayed=any(track.replayed for track in tracks.values()),
    )

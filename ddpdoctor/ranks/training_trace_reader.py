"""Reads what the agents in the ranks wrote down about their replicas; see `agent.inside.schema.training_trace`."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import math
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from ddpdoctor.agent.inside.schema import training_trace as trace
from ddpdoctor.agent.inside.schema.source_line import SourceLine
from ddpdoctor.agent.inside.schema.training_trace import Joined, TraceRecord
from ddpdoctor.evidence import RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import (
    Averaged,
    EpochSeen,
    EvaluationSeen,
    Gradient,
    Integrity,
    Left,
    LeftState,
    OverflowSeen,
    PartMark,
    ProbeSeen,
    Recomputed,
    ShareSeen,
    StepSeen,
    Table,
    TensorKind,
    Track,
    UnwaitedSeen,
    UnwrappedSeen,
    UnwrappedUsed,
)
from ddpdoctor.ranks.call_ring_reader import OtherVersionError
from ddpdoctor.ranks.element_texts import element_texts
from ddpdoctor.ranks.written_errors import frame_of, frames_of
from ddpdoctor.whole_numbers import whole_number

MOST_INDEX_BYTES = 1 << 27
FINGERPRINT_DIGITS = 16
T = TypeVar("T")
_OPENING = (
    trace.Joined, trace.ModelListing, trace.Wrapped, trace.BufferBroadcasts, trace.WrappedTwice, trace.Device,
)  # fmt: skip
_KINDS: Mapping[str, type[TraceRecord]] = {kind.__name__: kind for kind in get_args(TraceRecord)}


def read_tracks(directory: Path) -> tuple[RankFacts, ...]:
    """One `Track` for each rank, from the files in `directory`.

    Raises:
        OtherVersionError: a rank ran another version of ddpdoctor.
    """
    found: dict[int, tuple[Joined, Sequence[TraceRecord], bool]] = {}
    for segments in sorted(_segments_by_rank(directory), key=lambda files: files[-1].stat().st_mtime):
        records = _joined_segments([[*_complete(read_trace(file))] for file in segments])
        joined = next(iter(_of(Joined, records)), None)
        if joined is not None and joined.rank is not None:
            found[joined.rank] = joined, records, _segment_of(segments[0]) > 0
    by_rank = {rank: records for rank, (_, records, _) in found.items()}
    if any(is_cut for _, _, is_cut in found.values()):
        by_rank = _in_common(by_rank)
    return tuple(
        RankFacts(rank=rank, host=joined.host, facts=(_track(joined, by_rank[rank]),))
        for rank, (joined, _, _) in sorted(found.items())
    )


def _segments_by_rank(directory: Path) -> list[list[Path]]:
    """The files of each process, in order."""
    files: dict[str, list[Path]] = {}
    for file in directory.glob(f"*.{trace.SUFFIX}"):
        files.setdefault(file.name.partition(".")[0], []).append(file)
    return [sorted(segments, key=_segment_of) for segments in files.values()]


def segments_of(directory: Path, pid: int) -> list[int]:
    """The numbers of the segments that a process has kept of its trace, in order."""
    return sorted(map(_segment_of, directory.glob(f"{pid}.*{trace.SUFFIX}")))


def _segment_of(file: Path) -> int:
    number = file.name.removesuffix(f".{trace.SUFFIX}").partition(".")[2]
    return whole_number(number) or 0


def _joined_segments(segments: Sequence[Sequence[TraceRecord]]) -> list[TraceRecord]:
    """The records of all segments, and once those that each segment begins with."""
    first, *later = segments
    records = [*first]
    for segment in later:
        records += itertools.dropwhile(lambda record: isinstance(record, _OPENING), segment)
    return records


def _complete(records: Iterable[TraceRecord]) -> Iterator[TraceRecord]:
    """The records of one segment, each with what it leaves out because it is as in the record before."""
    last: dict[str, list[Any]] = {}

    def known(what: str, value: list[Any] | None) -> list[Any]:
        if value is not None:
            last[what] = value
        return last.get(what, [])

    for record in records:
        match record:
            case trace.Table():
                yield record._replace(names=known("table", record.names), shapes=known("shapes", record.shapes))
            case trace.Step(stepping=stepping, gradients=gradients):
                if (state := stepping.state) is not None:
                    stepping = stepping._replace(state=state._replace(names=known("state", state.names)))
                if gradients is not None:
                    gradients = gradients._replace(
                        names=known("gradients", gradients.names), standings=known("standings", gradients.standings)
                    )
                yield record._replace(stepping=stepping, gradients=gradients)
            case _:
                yield record


def _in_common(by_rank: Mapping[int, Sequence[TraceRecord]]) -> dict[int, Sequence[TraceRecord]]:
    """The records about the part of the run of which all ranks have kept their records.

    Ranks write different amounts, so their oldest segments begin at different steps and epochs.
    """
    steps = {rank: _of(trace.Step, records) for rank, records in by_rank.items()}
    step = max((mine[0].step for mine in steps.values() if mine), default=0)
    forwards = max((mine[0].forwards for mine in steps.values() if mine), default=0)
    epochs: dict[int, int] = {}
    for loader in {epoch.loader for records in by_rank.values() for epoch in _of(trace.Epoch, records)}:
        of_ranks = [
            [one.number for one in _of(trace.Epoch, records) if one.loader == loader] for records in by_rank.values()
        ]
        epochs[loader] = max((min(mine) for mine in of_ranks if mine), default=0)

    def is_common(record: TraceRecord) -> bool:
        if isinstance(record, (trace.Step, trace.Overflow, trace.UnwrappedModels)):
            return record.forwards >= forwards
        if isinstance(record, (trace.Evaluation, trace.UnwaitedWork)):
            return record.step > step  # those before the first common step may be in a segment that is gone
        return not isinstance(record, trace.Epoch) or record.number >= epochs[record.loader]

    return {rank: [record for record in records if is_common(record)] for rank, records in by_rank.items()}


def read_trace(file: Path) -> tuple[TraceRecord, ...]:
    """The records of one rank, in order; lines that are incomplete, because the rank died in them, are left out.

    Raises:
        OtherVersionError: the rank ran another version of ddpdoctor.
    """
    return tuple(_records(file.read_bytes().splitlines()))


def second_wraps(directory: Path) -> set[SourceLine]:
    """Where ranks put a model under a second DistributedDataParallel, and called both."""
    beginning = f'["{trace.WrappedTwice.__name__}"'.encode()
    lines = (line for file in directory.glob("*.sync.jsonl") for line in file.read_bytes().splitlines())
    return {
        twice.line for twice in _of(trace.WrappedTwice, _records(filter(lambda one: one.startswith(beginning), lines)))
    }


def _records(lines: Iterable[bytes]) -> Iterator[TraceRecord]:
    for line in lines:
        with contextlib.suppress(ValueError, LookupError, TypeError):
            name, fields = json.loads(line)
            if name == Joined.__name__ and fields[0] != trace.VERSION:
                raise OtherVersionError(f"the training trace of rank {fields[1]}", fields[0], trace.VERSION)
            yield msgspec.convert(fields, type=_KINDS[name])


def _of(kind: type[T], records: Iterable[TraceRecord]) -> list[T]:
    return [record for record in records if isinstance(record, kind)]


def _track(joined: Joined, records: Sequence[TraceRecord]) -> Track:
    tables = _tables(_of(trace.Table, records))
    integrity = {(one.forwards, one.since, one.beside): one for one in _of(trace.Integrity, records)}
    recomputed = {(one.forwards, one.since, one.beside): one for one in _of(trace.Recomputed, records)}
    end = next(reversed(_of(trace.End, records)), None)
    broadcasts = {one.prefix: one for one in _of(trace.BufferBroadcasts, records)}
    steps = [
        _with_recomputed(_with_integrity(_step(step), integrity, tables), recomputed, tables)
        for step in _of(trace.Step, records)
    ]
    return Track(
        method=joined.method,
        every=joined.every,
        replayed=joined.replay,
        kinds=tuple(
            _kind(number, row)
            for number, listing in enumerate(_of(trace.ModelListing, records))
            for row in listing.tensors
        ),
        wrap_lines=tuple(_frame(wrapped.line) for wrapped in _of(trace.Wrapped, records)),
        replicas=_replicas(_of(trace.Wrapped, records)),
        start=_start(records),
        left=tuple(
            Left(
                step=last.step,
                weights=last.key,
                local=last.local,
                writes=last.writes,
                later=last.later,
                moment=last.moment,
            )
            for last in _of(trace.LastWeights, records)
        ),
        left_state=next(
            (
                LeftState(
                    step=last.step,
                    digests=_named(last.names, last.digests),
                    shadowed=last.shadowed,
                    moment=last.moment,
                    later=last.later,
                )
                for last in _of(trace.LastState, records)
            ),
            None,
        ),
        tables=tables,
        steps=tuple(one for one in steps if not one.left_out),
        left_out=tuple(one for one in steps if one.left_out),
        broadcasts_buffers={prefix: one.broadcasts for prefix, one in broadcasts.items()},
        ignored_buffers=frozenset(name for one in broadcasts.values() for name in one.ignored),
        epochs=tuple(map(_epoch, _of(trace.Epoch, records))),
        evaluations=tuple(map(_evaluation, _of(trace.Evaluation, records))),
        overflows=tuple(
            OverflowSeen(step=one.step, forwards=one.forwards, scale=one.scale, line=_frame(one.line))
            for one in _of(trace.Overflow, records)
        ),
        unwaited=tuple(
            UnwaitedSeen(op=one.op, step=one.step, line=_frame(one.line), used_by=one.used_by)
            for one in _of(trace.UnwaitedWork, records)
        ),
        unwrapped=tuple(
            UnwrappedSeen(
                name=model.name,
                kind=model.kind,
                digest=model.digest,
                step=one.step,
                at_end=one.phase == "end",
                key=(one.forwards, one.since, one.beside),
            )
            for one in _of(trace.UnwrappedModels, records)
            for model in one.models
        ),
        unwrapped_uses=tuple(
            UnwrappedUsed(name=one.name, how=one.how, step=one.step, line=_frame(one.line))
            for one in _of(trace.UnwrappedUse, records)
        ),
        unwrapped_writes={one.name: frame_of(one.line) for one in _of(trace.UnwrappedWrite, records)},
        device=next((one.name for one in _of(trace.Device, records)), ""),
        probes=tuple(map(_probe, _of(trace.Probe, records))),
        steps_made=end.steps if end is not None else None,
        forwards_made=end.forwards if end is not None else None,
        never_probed=end is not None and end.never_probed,
        interval=end.interval if end is not None else 1,
    )


def _start(records: Sequence[TraceRecord]) -> str | None:
    """The table of the weights when the last model was wrapped that was wrapped before any step."""
    since_wrapped = itertools.dropwhile(lambda record: not isinstance(record, trace.Wrapped), records)
    before = itertools.takewhile(lambda record: not isinstance(record, trace.Step), since_wrapped)
    starts = [table.key for table in _of(trace.Table, before) if table.phase == "start"]
    return starts[-1] if starts else None


def _kind(model: int, row: trace.TensorRow) -> TensorKind:
    return TensorKind(
        role=row.role,
        name=_prefix(model) + row.name,
        structure={
            "dtype": row.dtype,
            "shape": str(row.shape),
            "stride": str(row.stride),
            "requires_grad": str(row.requires_grad),
            "ties": f"tied to {row.tied_to}" if row.tied_to else "not tied",
        },
    )


def _prefix(model: int) -> str:
    """What the names of its tensors begin with; see `evidence.training_trace.model_prefix`."""
    return f"model{model + 1}:" if model else ""


def _tables(written: Iterable[trace.Table]) -> dict[str, Table]:
    return {
        table.key: Table(
            digests=_named(table.names, table.digests),
            samples=_samples(table),
            shapes={name: tuple(shape) for name, shape in zip(table.names or (), table.shapes or (), strict=True)},
        )
        for table in written
    }


def _samples(table: trace.Table) -> dict[str, tuple[tuple[int, str], ...]]:
    """Place and text of the sampled elements, by the name of their tensor."""
    names, shapes = table.names or (), table.shapes or ()
    found: dict[str, tuple[tuple[int, str], ...]] = dict.fromkeys(names, ())
    for sampled in table.samples:
        tensors = range(len(names)) if sampled.tensors is None else sampled.tensors
        texts = iter(element_texts(sampled.dtype, bytes.fromhex(sampled.elements)))
        for tensor in tensors:
            count = math.prod(shapes[tensor])
            own = [*texts] if len(tensors) == 1 else [*itertools.islice(texts, min(count, trace.SAMPLED))]
            found[names[tensor]] = tuple((count * number // len(own), text) for number, text in enumerate(own))
    return found


def _evaluating(prefix: str, found: trace.Evaluating) -> str:
    """Such as: `bn1`, `bn2`, `bn3` (53 modules)."""
    if "" in found.names:
        return f"{prefix} the whole model".lstrip()
    named = ", ".join(f"`{prefix}{name}`" for name in found.names)
    return named if found.total == len(found.names) else f"{named} ({found.total} modules)"


def _step(step: trace.Step) -> StepSeen:
    backward, stepping = step.backward, step.stepping
    lines = {
        "forward": backward.forward, "load": backward.load, "backward": backward.backward, "grad": backward.grad,
        "eval": next((one.line for _, one in sorted((step.evaluating or {}).items())), None),
    }  # fmt: skip
    return StepSeen(
        step=step.step,
        forwards=step.forwards,
        since=step.since,
        beside=step.beside,
        shadowed=step.shadowed,
        position=(step.position.epoch, step.position.batches) if step.position is not None else None,
        scale=step.scale,
        wrapped=backward.wrapped,
        synchronised=backward.synchronised,
        batch=backward.batch,
        finite=backward.finite,
        input=backward.input,
        loss=backward.loss,
        lines=_frames({what: line for what, line in lines.items() if line is not None}),
        modes={prefix: one.digest for prefix, one in (step.evaluating or {}).items()},
        evaluating=", ".join(_evaluating(prefix, one) for prefix, one in sorted((step.evaluating or {}).items())),
        optimizer=stepping.optimizer,
        line=_frame(stepping.line),
        settings=stepping.settings,
        setting_lines={name: frame_of(line) for line, names in stepping.setting_lines for name in names},
        loaded=_frame(stepping.loaded),
        state=_named(stepping.state.names, stepping.state.digests) if stepping.state is not None else None,
        parts_before=_parts(stepping.parts),
        parts=_parts(step.parts),
        part_marks_before=_marks(stepping.parts),
        part_marks=_marks(step.parts),
        state_parts=_parts(stepping.state_parts or {}),
        gradients=_gradients(step.gradients) if step.gradients is not None else {},
        origins=_frames(step.gradients.origins) if step.gradients is not None else {},
        not_finite=tuple(step.gradients.not_finite) if step.gradients is not None and not step.closure else (),
        buffers=step.buffers,
        buffer_writes=step.buffer_writes or {},
        weights=step.weights,
        after=step.after,
        random=(step.random_before, step.random_after),
        bypassed=_frames(step.bypassed),
        comm_hook=_frame(step.comm_hook),
        hook_of_torch=step.hook_of_torch,
        left_out=step.left_out,
        closure=step.closure,
        averaging=_averaged(step.averaging) if step.averaging is not None else None,
        writes={what: frames_of(written) for what, written in step.writes.items()},
        partly_watched=step.partly_watched,
    )


def _with_integrity(
    step: StepSeen, written: Mapping[tuple[int, int, int], trace.Integrity], tables: Mapping[str, Table]
) -> StepSeen:
    record = written.get(step.key)
    table = tables.get(step.after)
    if record is None or table is None:
        return step
    names = list(table.digests)  # those of wrapped models come first
    return replace(
        step,
        integrity=Integrity(
            wrapped=record.versions.wrapped,
            begin=record.versions.begin,
            buffers=dict(zip(step.buffers, record.buffer_writes, strict=False)),
            state=record.versions.state,
            end=record.versions.after,
            reduced=dict(zip(names, _fingerprints(record.reduced), strict=False)),
            before=_parities(names, record.before),
            after=_parities(names, record.after),
            buffers_before=_parities([*step.buffers], record.buffers),
            given=dict(zip(names, _fingerprints(record.given), strict=False)),
            given_parities=_parities(names, record.given_parities),
            gradient_writes=record.gradient_writes,
        ),
    )


def _with_recomputed(
    step: StepSeen, written: Mapping[tuple[int, int, int], trace.Recomputed], tables: Mapping[str, Table]
) -> StepSeen:
    record = written.get(step.key)
    table = tables.get(step.after)
    if record is None or table is None:
        return step
    names = list(table.digests)  # those of wrapped models come first
    return replace(
        step,
        recomputed=Recomputed(
            given=dict(zip(names, _fingerprints(record.given), strict=False)),
            first=dict(zip(names, _fingerprints(record.first), strict=False)),
            second=dict(zip(names, _fingerprints(record.second), strict=False)),
            parity=_parities(names, record.parity),
            operation=record.operation,
            failed=record.failed,
        ),
    )


def _probe(probe: trace.Probe) -> ProbeSeen:
    return ProbeSeen(
        step=probe.step,
        forwards=probe.forwards,
        weights=probe.weights,
        input=probe.input,
        outputs=dict(zip(probe.modules, _fingerprints(probe.outputs), strict=True)),
        again=dict(zip(probe.modules, _fingerprints(probe.again), strict=True)),
        settings=probe.settings,
    )


def _averaged(averaging: trace.Averaging) -> Averaged:
    return Averaged(made=averaging.made, local=averaging.local, line=_frame(averaging.line))


def _gradients(written: trace.Gradients) -> dict[str, Gradient]:
    names, standings = written.names or (), written.standings or ()
    reduced, local = (array("d", bytes.fromhex(column)) for column in (written.reduced, written.local))
    columns = (_fingerprints(written.digests), reduced, local, written.counts, standings)
    parities = _parities(names, written.parities)
    return {
        name: Gradient(
            digest=digest,
            reduced=reduced,
            local=local if count else None,
            count=count,
            standing=standing,
            parity=parities.get(name),
        )
        for name, digest, reduced, local, count, standing in zip(names, *columns, strict=True)
    }


def _epoch(epoch: trace.Epoch) -> EpochSeen:
    return EpochSeen(
        loader=epoch.loader,
        number=epoch.number,
        batches=epoch.batches,
        finished=epoch.finished,
        length=epoch.length,
        indices=_indices(epoch.indices) if epoch.indices is not None else None,
        sampler=epoch.sampler,
        line=_frame(epoch.line),
        data=epoch.data,
        share=_share(epoch.share) if epoch.share is not None else None,
    )


def _share(share: trace.Share) -> ShareSeen:
    return ShareSeen(
        rank=share.rank,
        replicas=share.replicas,
        epoch=share.epoch,
        made=_frame(share.made),
        told=_frame(share.told),
        seed=share.seed,
    )


def _indices(packed: str) -> tuple[int, ...]:
    numbers = array("q")
    numbers.frombytes(zlib.decompressobj().decompress(base64.b64decode(packed), MOST_INDEX_BYTES))
    return tuple(numbers)


def _evaluation(evaluation: trace.Evaluation) -> EvaluationSeen:
    return EvaluationSeen(
        step=evaluation.step,
        batches=evaluation.batches,
        samples=evaluation.samples,
        collectives=evaluation.collectives,
        input=evaluation.input,
        line=_frame(evaluation.line),
    )


def _fingerprints(joined: str) -> list[str]:
    return [joined[start : start + FINGERPRINT_DIGITS] for start in range(0, len(joined), FINGERPRINT_DIGITS)]


def _parities(names: Sequence[str], joined: str) -> dict[str, int]:
    words = zip(names, _fingerprints(joined), strict=False)
    return {name: int(word, 16) for name, word in words if not word.startswith("-")}


def _named(names: Sequence[str] | None, digests: str) -> dict[str, str]:
    return dict(zip(names or (), _fingerprints(digests), strict=True))


def _parts(parts: Mapping[str, trace.Part]) -> dict[str, tuple[int, str]]:
    return {name: (part.holder, part.digest) for name, part in parts.items()}


def _marks(parts: Mapping[str, trace.Part]) -> dict[str, PartMark]:
    return {
        name: PartMark(writes=part.writes, parity=int(part.parity, FINGERPRINT_DIGITS), bits=part.bits)
        for name, part in parts.items()
        if part.parity
    }


def _frame(line: SourceLine | None) -> Frame | None:
    return frame_of(line) if line is not None else None


def _frames(lines: Mapping[str, SourceLine]) -> dict[str, Frame]:
    return {what: frame_of(line) for what, line in lines.items()}


def _replicas(wraps: Iterable[trace.Wrapped]) -> frozenset[int] | None:
    groups = [frozenset(wrapped.ranks) for wrapped in wraps if wrapped.ranks is not None]
    return frozenset.intersection(*groups) if groups else None

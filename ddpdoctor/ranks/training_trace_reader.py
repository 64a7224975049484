"""Reads what the agents in the ranks wrote down about their replicas; see `agent.inside.schema.training_trace`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ddpdoctor.agent.inside.schema import (
    data_records,
    final_records,
    hardware_records,
    model_records,
    step_records,
    unwrapped_records,
)
from ddpdoctor.agent.inside.schema import training_trace as trace
from ddpdoctor.agent.inside.schema.source_line import SourceLine
from ddpdoctor.agent.inside.schema.training_trace import Joined, TraceRecord
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import (
    EpochSeen,
    EvaluationSeen,
    LastSettings,
    Left,
    LeftState,
    OptimizerSteps,
    OverflowSeen,
    ProbeSeen,
    ShareSeen,
    Table,
    TensorKind,
    Track,
    UnwaitedSeen,
    UnwrappedSeen,
    UnwrappedUsed,
)
from ddpdoctor.ranks.element_texts import element_texts
from ddpdoctor.ranks.packed_columns import fingerprints, indices_of, named_digests
from ddpdoctor.ranks.training_trace_files import of_kind, read_traces
from ddpdoctor.ranks.training_trace_steps import read_steps
from ddpdoctor.ranks.written_errors import frame_of, optional_frame


class BrokenTraceError(UndecidedError):
    """Records of a rank contradict each other."""


def read_tracks(directory: Path) -> tuple[RankFacts, ...]:
    """One `Track` for each rank, from the files in `directory`.

    Raises:
        OtherVersionError: a rank ran another version of ddpdoctor.
        BrokenTraceError: the trace of a rank cannot be read.
    """
    return tuple(
        RankFacts(rank=rank, host=joined.host, facts=(_readable(rank, joined, records),))
        for rank, (joined, records) in read_traces(directory).items()
    )


def _readable(rank: int, joined: Joined, records: Sequence[TraceRecord]) -> Track:
    try:
        return _track(joined, records)
    except ValueError as error:  # as of columns that have other lengths than their names
        raise BrokenTraceError(
            f"the training trace of rank {rank} contradicts itself ({error})", hint="this is a bug in ddpdoctor"
        ) from error


def _track(joined: Joined, records: Sequence[TraceRecord]) -> Track:
    tables = _tables(of_kind(model_records.Table, records))
    end = next(reversed(of_kind(final_records.End, records)), None)
    broadcasts = {one.prefix: one for one in of_kind(model_records.BufferBroadcasts, records)}
    steps = read_steps(records, tables)
    return Track(
        method=joined.method,
        every=joined.every,
        replayed=joined.replay,
        kinds=tuple(
            _kind(number, row)
            for number, listing in enumerate(of_kind(model_records.ModelListing, records))
            for row in listing.tensors
        ),
        wrap_lines=tuple(optional_frame(wrapped.line) for wrapped in of_kind(model_records.Wrapped, records)),
        replicas=_replicas(records),
        start=_start(records),
        left=tuple(map(_left, of_kind(final_records.LastWeights, records))),
        left_state=next(map(_left_state, of_kind(final_records.LastState, records)), None),
        tables=tables,
        steps=tuple(one for one in steps if not one.left_out),
        left_out=tuple(one for one in steps if one.left_out),
        broadcasts_buffers={prefix: one.broadcasts for prefix, one in broadcasts.items()},
        ignored_buffers=frozenset(name for one in broadcasts.values() for name in one.ignored),
        epochs=tuple(map(_epoch, of_kind(data_records.Epoch, records))),
        evaluations=tuple(map(_evaluation, of_kind(data_records.Evaluation, records))),
        overflows=tuple(map(_overflow, of_kind(step_records.Overflow, records))),
        unwaited=tuple(map(_unwaited, of_kind(step_records.UnwaitedWork, records))),
        unwrapped=tuple(
            seen for one in of_kind(unwrapped_records.UnwrappedModels, records) for seen in _unwrapped_models(one)
        ),
        unwrapped_uses=tuple(map(_unwrapped_use, of_kind(unwrapped_records.UnwrappedUse, records))),
        unwrapped_writes={one.name: frame_of(one.line) for one in of_kind(unwrapped_records.UnwrappedWrite, records)},
        device=next((one.name for one in of_kind(hardware_records.Device, records)), ""),
        probes=tuple(map(_probe, of_kind(hardware_records.Probe, records))),
        steps_made=end.steps if end is not None else None,
        by_optimizer=tuple(map(_optimizer, (end.by_optimizer or ()) if end is not None else ())),
        forwards_made=end.forwards if end is not None else None,
        never_probed=end is not None and end.never_probed,
        interval=end.interval if end is not None else 1,
    )


def _optimizer(one: final_records.OptimizerSteps) -> OptimizerSteps:
    return OptimizerSteps(
        name=one.name,
        steps=one.steps,
        first=optional_frame(one.first),
        began=one.began,
        settings=one.settings,
        setting_lines=_lines_by_name(one.setting_lines),
        last=LastSettings(
            steps=one.last.steps,
            moment=one.last.moment,
            settings=one.last.settings,
            setting_lines=_lines_by_name(one.last.setting_lines),
        )
        if one.last is not None
        else None,
    )


def _lines_by_name(lines: Iterable[tuple[SourceLine, list[str]]]) -> dict[str, Frame]:
    return {name: frame_of(line) for line, names in lines for name in names}


def _left(last: final_records.LastWeights) -> Left:
    return Left(
        step=last.step, weights=last.key, local=last.local, writes=last.writes, later=last.later, moment=last.moment
    )


def _left_state(last: final_records.LastState) -> LeftState:
    return LeftState(
        step=last.step,
        digests=named_digests(last.names, last.digests),
        shadowed=last.shadowed,
        moment=last.moment,
        later=last.later,
    )


def _overflow(one: step_records.Overflow) -> OverflowSeen:
    return OverflowSeen(step=one.step, forwards=one.forwards, scale=one.scale, line=optional_frame(one.line))


def _unwaited(one: step_records.UnwaitedWork) -> UnwaitedSeen:
    return UnwaitedSeen(op=one.op, step=one.step, line=optional_frame(one.line), used_by=one.used_by)


def _unwrapped_models(one: unwrapped_records.UnwrappedModels) -> Iterator[UnwrappedSeen]:
    for model in one.models:
        yield UnwrappedSeen(
            name=model.name,
            kind=model.kind,
            digest=model.digest,
            step=one.step,
            at_end=one.phase == "end",
            key=(one.forwards, one.since, one.beside),
        )


def _unwrapped_use(one: unwrapped_records.UnwrappedUse) -> UnwrappedUsed:
    return UnwrappedUsed(name=one.name, how=one.how, step=one.step, line=optional_frame(one.line))


def _start(records: Sequence[TraceRecord]) -> str | None:
    """The table of the weights when the last model was wrapped that was wrapped before any step."""
    since_wrapped = itertools.dropwhile(lambda record: not isinstance(record, model_records.Wrapped), records)
    before = itertools.takewhile(lambda record: not isinstance(record, step_records.Step), since_wrapped)
    starts = [table.key for table in of_kind(model_records.Table, before) if table.phase == "start"]
    return starts[-1] if starts else None


def _replicas(records: Sequence[TraceRecord]) -> frozenset[int] | None:
    """The members of the groups of all wrappers; without one, of the group in which every step reduced its gradients.

    Or of the one in which the rank averages its weights, where it averages them in no other.
    """
    wraps = of_kind(model_records.Wrapped, records)
    if wraps:
        groups = {frozenset(wrapped.ranks) for wrapped in wraps if wrapped.ranks is not None}
        return frozenset.intersection(*groups) if groups else None
    steps = [*of_kind(step_records.Step, records)]
    averaged = {frozenset(step.averaging.members or ()) for step in steps if step.averaging is not None}
    if averaged:
        return (next(iter(averaged)) or None) if len(averaged) == 1 else None
    reduced = {frozenset(step.reduced_among or ()) for step in steps}
    return (next(iter(reduced)) or None) if len(reduced) == 1 else None


def _kind(model: int, row: model_records.TensorRow) -> TensorKind:
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


def _tables(written: Iterable[model_records.Table]) -> dict[str, Table]:
    return {
        table.key: Table(
            digests=named_digests(table.names, table.digests),
            samples=_samples(table),
            shapes={name: tuple(shape) for name, shape in zip(table.names or (), table.shapes or (), strict=True)},
        )
        for table in written
    }


def _samples(table: model_records.Table) -> dict[str, tuple[tuple[int, str], ...]]:
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


def _probe(probe: hardware_records.Probe) -> ProbeSeen:
    return ProbeSeen(
        step=probe.step,
        forwards=probe.forwards,
        weights=probe.weights,
        input=probe.input,
        outputs=dict(zip(probe.modules, fingerprints(probe.outputs), strict=True)),
        again=dict(zip(probe.modules, fingerprints(probe.again), strict=True)),
        settings=probe.settings,
    )


def _epoch(epoch: data_records.Epoch) -> EpochSeen:
    return EpochSeen(
        loader=epoch.loader,
        number=epoch.number,
        batches=epoch.batches,
        finished=epoch.finished,
        length=epoch.length,
        indices=indices_of(epoch.indices) if epoch.indices is not None else None,
        sampler=epoch.sampler,
        line=optional_frame(epoch.line),
        data=epoch.data,
        share=_share(epoch.share) if epoch.share is not None else None,
        draws=optional_frame(epoch.draws),
    )


def _share(share: data_records.Share) -> ShareSeen:
    return ShareSeen(
        rank=share.rank,
        replicas=share.replicas,
        epoch=share.epoch,
        made=optional_frame(share.made),
        told=optional_frame(share.told),
        seed=share.seed,
    )


def _evaluation(evaluation: data_records.Evaluation) -> EvaluationSeen:
    return EvaluationSeen(
        step=evaluation.step,
        batches=evaluation.batches,
        samples=evaluation.samples,
        collectives=evaluation.collectives,
        input=evaluation.input,
        line=optional_frame(evaluation.line),
    )

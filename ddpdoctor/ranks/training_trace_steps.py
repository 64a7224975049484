"""The steps of a training trace as evidence, each with what other records say of it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ddpdoctor.agent.inside.schema import hardware_records, step_records
from ddpdoctor.agent.inside.schema.training_trace import TraceRecord
from ddpdoctor.evidence.audited_steps import Averaged, Gradient, Integrity, Recomputed, StepSeen
from ddpdoctor.evidence.training_trace import Table
from ddpdoctor.ranks.packed_columns import fingerprints, marks_of, named_digests, parities_by_name, parts_of
from ddpdoctor.ranks.training_trace_files import of_kind
from ddpdoctor.ranks.written_errors import frame_of, frames_by_name, frames_of, optional_frame


def read_steps(records: Sequence[TraceRecord], tables: Mapping[str, Table]) -> list[StepSeen]:
    """The steps among the records of a rank, in order; `tables` are its tables of weights by their key."""
    integrity = {(one.forwards, one.since, one.beside): one for one in of_kind(hardware_records.Integrity, records)}
    recomputed = {(one.forwards, one.since, one.beside): one for one in of_kind(hardware_records.Recomputed, records)}
    return [
        _with_checks_of_hardware(_step(step), integrity, recomputed, tables)
        for step in of_kind(step_records.Step, records)
    ]


def _step(step: step_records.Step) -> StepSeen:
    backward, stepping = step.backward, step.stepping
    lines = {
        "forward": backward.forward, "load": backward.load, "backward": backward.backward, "grad": backward.grad,
        "lost": backward.lost_line,
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
        lost_at=backward.lost_at,
        lines=frames_by_name({what: line for what, line in lines.items() if line is not None}),
        modes={prefix: one.digest for prefix, one in (step.evaluating or {}).items()},
        evaluating=", ".join(_evaluating(prefix, one) for prefix, one in sorted((step.evaluating or {}).items())),
        optimizer=stepping.optimizer,
        line=optional_frame(stepping.line),
        settings=stepping.settings,
        setting_lines={name: frame_of(line) for line, names in stepping.setting_lines for name in names},
        loaded=optional_frame(stepping.loaded),
        state=named_digests(stepping.state.names, stepping.state.digests) if stepping.state is not None else None,
        parts_before=parts_of(stepping.parts),
        parts=parts_of(step.parts),
        part_marks_before=marks_of(stepping.parts),
        part_marks=marks_of(step.parts),
        state_parts_before=parts_of(stepping.state_parts or {}),
        state_parts=parts_of(step.state_parts or {}),
        state_marks_before=marks_of(stepping.state_parts or {}),
        state_marks=marks_of(step.state_parts or {}),
        gradients=_gradients(step.gradients) if step.gradients is not None else {},
        origins=frames_by_name(step.gradients.origins) if step.gradients is not None else {},
        not_finite=tuple(step.gradients.not_finite) if step.gradients is not None and not step.closure else (),
        buffers=step.buffers,
        buffer_writes=step.buffer_writes or {},
        weights=step.weights,
        after=step.after,
        random=(step.random_before, step.random_after),
        bypassed=frames_by_name(step.bypassed),
        comm_hook=optional_frame(step.comm_hook),
        hook_of_torch=step.hook_of_torch,
        left_out=step.left_out,
        closure=step.closure,
        averaging=_averaged(step.averaging) if step.averaging is not None else None,
        writes={what: frames_of(written) for what, written in step.writes.items()},
        partly_watched=step.partly_watched,
        exchanged=step.exchanged,
    )


def _evaluating(prefix: str, found: step_records.Evaluating) -> str:
    """Such as: `bn1`, `bn2`, `bn3` (53 modules)."""
    if "" in found.names:
        return f"{prefix} the whole model".lstrip()
    named = ", ".join(f"`{prefix}{name}`" for name in found.names)
    return named if found.total == len(found.names) else f"{named} ({found.total} modules)"


def _with_checks_of_hardware(
    step: StepSeen,
    integrity: Mapping[tuple[int, int, int], hardware_records.Integrity],
    recomputed: Mapping[tuple[int, int, int], hardware_records.Recomputed],
    tables: Mapping[str, Table],
) -> StepSeen:
    written, again, table = integrity.get(step.key), recomputed.get(step.key), tables.get(step.after)
    if table is None or (written is None and again is None):
        return step
    names = list(table.digests)  # those of wrapped models come first
    return replace(
        step,
        integrity=_integrity(written, step, names) if written is not None else None,
        recomputed=_recomputed(again, names) if again is not None else None,
    )


def _integrity(record: hardware_records.Integrity, step: StepSeen, names: Sequence[str]) -> Integrity:
    return Integrity(
        wrapped=record.versions.wrapped,
        begin=record.versions.begin,
        buffers=dict(zip(step.buffers, record.buffer_writes, strict=False)),
        state=record.versions.state,
        end=record.versions.after,
        reduced=_by_name(names, record.reduced),
        before=parities_by_name(names, record.before),
        after=parities_by_name(names, record.after),
        buffers_before=parities_by_name([*step.buffers], record.buffers),
        given=_by_name(names, record.given),
        given_parities=parities_by_name(names, record.given_parities),
        gradient_writes=record.gradient_writes,
    )


def _recomputed(record: hardware_records.Recomputed, names: Sequence[str]) -> Recomputed:
    return Recomputed(
        given=_by_name(names, record.given),
        first=_by_name(names, record.first),
        second=_by_name(names, record.second),
        parity=parities_by_name(names, record.parity),
        operation=record.operation,
        failed=record.failed,
    )


def _by_name(names: Sequence[str], written: str) -> dict[str, str]:
    """The fingerprints in a string, by the names of the tensors."""
    return dict(zip(names, fingerprints(written), strict=False))


def _averaged(averaging: step_records.Averaging) -> Averaged:
    members = None if averaging.members is None else frozenset(averaging.members)
    return Averaged(made=averaging.made, local=averaging.local, line=optional_frame(averaging.line), members=members)


def _gradients(written: step_records.Gradients) -> dict[str, Gradient]:
    names, standings = written.names or (), written.standings or ()
    reduced, local = (array("d", bytes.fromhex(column)) for column in (written.reduced, written.local))
    columns = (fingerprints(written.digests), reduced, local, written.counts, standings)
    parities = parities_by_name(names, written.parities)
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

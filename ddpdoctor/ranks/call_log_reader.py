"""What a rank's call ring and its texts say together: collectives, iterations, and the pace of the training loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from typing_extensions import assert_never

from ddpdoctor.agent.inside.schema import call_ring
from ddpdoctor.agent.inside.schema.call_ring import NO_COUNT, NO_RANK, NO_SEQ, Batch, Collective, PointToPoint, Record
from ddpdoctor.agent.inside.schema.call_texts import Group, Members, ReduceOp
from ddpdoctor.evidence.ranks import (
    CollectiveCall,
    CollectiveCalls,
    Forward,
    GroupMembers,
    Handled,
    NewGroup,
    StepMark,
    WrappedModel,
)
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.step_times import Pace
from ddpdoctor.ranks.call_texts_reader import Texts
from ddpdoctor.ranks.fr_from_call_ring import record_from
from ddpdoctor.ranks.written_errors import error_of


@dataclass(frozen=True, slots=True)
class CallLogReader:
    """What the agent of one rank recorded of its calls."""

    records: Sequence[Record]
    """Oldest first, as far as the ring was read."""
    texts: Texts
    """The names, lines and groups that records refer to by number."""

    def calls(self) -> CollectiveCalls:
        """What the rank called, and where its iterations fall among its collectives."""
        calls: list[CollectiveCall] = []
        new_groups: list[NewGroup] = []
        iterations: list[Batch | call_ring.Forward] = []
        for record in self.records:
            match record:
                case Collective():
                    calls.append(_collective(record, self.texts))
                case PointToPoint():
                    calls.append(_point_to_point(record, self.texts))
                case call_ring.NewGroup():
                    new_groups.append(_new_group(record, self.texts))
                case Batch() | call_ring.Forward():
                    iterations.append(record)
                case _:
                    assert_never(record)
        return CollectiveCalls(
            calls=tuple(calls),
            steps=_step_marks(iterations),
            forwards=tuple(_forwards(iterations, self.texts)),
            new_groups=tuple(new_groups),
            groups=tuple(
                GroupMembers(group=group.name, ranks=group.ranks)
                for group in self.texts.groups()
                if group.ranks and min(group.ranks) >= 0
            ),
            handled=tuple(
                Handled(group=one.group, seq=one.seq, error=error_of(one.error)) for one in self.texts.handled
            ),
            wrapped=tuple(
                WrappedModel(dtypes=dict(one.dtypes), place=self.texts.line(one.place)) for one in self.texts.wrapped()
            ),
        )

    def pace(self) -> Pace:
        """When the latest iterations began; the batches are those of the data set that is trained on."""
        iterations = [record for record in self.records if isinstance(record, Batch | call_ring.Forward)]
        data_set = _trained_on(iterations)
        batches = [record for record in iterations if isinstance(record, Batch) and data_set in (None, record.data_set)]
        forwards = [record for record in self.records if isinstance(record, call_ring.Forward)]
        return Pace(
            asked_ns=tuple(batch.asked_ns for batch in batches),
            drawn_ns=tuple(batch.drawn_ns for batch in batches),
            forward_ns=tuple(forward.began_ns for forward in forwards),
            forward_steps=tuple(forward.steps for forward in forwards),
            forward_lines=tuple(forward.place for forward in forwards),
            forward=self.texts.line(forwards[-1].place) if forwards else None,
        )

    def flight_record(self) -> FlightRecord | None:
        """The calls that a flight recorder would hold; None where there are none."""
        return record_from([record for record in self.records if isinstance(record, Collective)], self.texts)


def _collective(record: Collective, texts: Texts) -> CollectiveCall:
    group, reduce_op = texts.get(Group, record.group), texts.get(ReduceOp, record.reduce_op)
    return CollectiveCall(
        op=texts.op(record.op),
        group=group.name if group is not None else "?",
        seq=None if record.seq == NO_SEQ else record.seq,
        reduce_op=reduce_op.name if reduce_op is not None else None,
        root=None if record.root == NO_RANK else record.root,
        returned=record.returned_ns != 0,
        place=texts.line(record.place),
    )


def _point_to_point(record: PointToPoint, texts: Texts) -> CollectiveCall:
    group = texts.get(Group, record.group)
    return CollectiveCall(
        op=texts.op(record.op),
        group=group.name if group is not None else "?",
        seq=record.number,
        peer=None if record.peer == NO_RANK else record.peer,
        tag=record.tag,
        returned=record.returned_ns != 0,
        began_ns=record.began_ns,
        place=texts.line(record.place),
    )


def _new_group(record: call_ring.NewGroup, texts: Texts) -> NewGroup:
    members = texts.get(Members, record.members)
    return NewGroup(
        ranks=members.ranks if members is not None else (),
        returned=record.returned_ns != 0,
        place=texts.line(record.place),
    )


def _step_marks(iterations: Sequence[Batch | call_ring.Forward]) -> tuple[StepMark, ...]:
    """One count of iterations: batches of the data set that is trained on, or else the forwards."""
    data_set = _trained_on(iterations)
    if data_set is None:
        return tuple(
            StepMark(iteration=forward.number, seq=forward.seq)
            for forward in iterations
            if isinstance(forward, call_ring.Forward) and forward.seq != NO_SEQ
        )
    return tuple(_batch_marks(iterations, data_set))


def _batch_marks(iterations: Sequence[Batch | call_ring.Forward], data_set: int) -> Iterator[StepMark]:
    numbers = [record.number for record in iterations if isinstance(record, call_ring.Forward)]
    made = numbers[0] - 1 if numbers else 0
    for record in iterations:
        match record:
            case call_ring.Forward():
                made = record.number
            case Batch() if record.data_set == data_set and record.seq != NO_SEQ:
                yield StepMark(
                    iteration=record.iteration,
                    seq=record.seq,
                    in_pass=_count(record.in_pass),
                    of=_count(record.of),
                    forwards=made,
                )


def _trained_on(iterations: Sequence[Batch | call_ring.Forward]) -> int | None:
    """The number of the data set whose batches most training forwards followed; None where no forward followed a batch.

    A loader that is drawn from without training is for evaluation, and says nothing of the iterations.
    """
    followed = Counter(
        batch.data_set
        for batch, following in pairwise(iterations)
        if isinstance(batch, Batch) and isinstance(following, call_ring.Forward)
    )
    return followed.most_common(1)[0][0] if followed else None


def _forwards(iterations: Sequence[Batch | call_ring.Forward], texts: Texts) -> Iterator[Forward]:
    for forward in iterations:
        if isinstance(forward, call_ring.Forward) and (place := texts.line(forward.place)) is not None:
            stack = texts.stack(forward.place)
            yield Forward(
                number=forward.number,
                place=place,
                turn=_count(forward.turn),
                stack=stack,
                steps=forward.steps,
                reduces=None if forward.reduces == NO_COUNT else forward.reduces == 1,
            )


def _count(number: int) -> int | None:
    return None if number == NO_COUNT else number

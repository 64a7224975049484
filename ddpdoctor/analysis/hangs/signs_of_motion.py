"""Whether a job went on when its dumps were made, where nothing shows how old the calls in them are.

In a job that hangs everything comes to rest: what is left waits for the ranks at fault. Dumps of a job on its way show ranks at
different moments.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.hangs.older_dumps import ended_on
from ddpdoctor.analysis.hangs.operations import Operation
from ddpdoctor.analysis.hangs.outstanding import Outstanding
from ddpdoctor.analysis.hangs.standing_operations import StandingOperations, in_all_transfers
from ddpdoctor.analysis.hangs.stopped_ranks import UncompletedCall
from ddpdoctor.model import group_ranks, verb

FEW = 4  # one of so many ranks may have something else to do, or a fault of its own
RANKS_OF_A_HOST = 16
MANY = 8  # of fewer ranks, two may be at fault


def sign_of_motion(
    timeline: Timeline,
    outstanding: Outstanding,
    standing: StandingOperations,
    named: Collection[int],
    behind: Sequence[UncompletedCall],
    *,
    moments_kept: bool,
) -> str | None:
    """What shows that more goes on in the job than that all ranks wait for those `named`; None where nothing does.

    `behind` tells what these have not completed, of ranks that have stopped. `moments_kept` says that the dumps hold when calls
    ended, as those of a recorder do whose watchdog writes a dump after a timeout. Others were asked for at some moment.
    """
    if FEW * len(named) > max(len(outstanding.idle) + len(outstanding.of_rank), MANY):
        return f"{len(named)} ranks at once do not come after the others"
    if _are_scattered(outstanding, named):
        return (
            f"{group_ranks(sorted(named))}, which are not of one host, do not come to calls of several groups at once"
        )
    ending = _is_being_noted(timeline, outstanding.operations)
    if ending is not None:
        return ending
    apart = next((one for one in behind if not {*one.peers_completed}.isdisjoint(named)), None)
    if apart is not None:
        return f"rank {apart.rank} has not completed what ranks have that are behind others themselves"
    if {*outstanding.of_rank} <= {*named}:
        return "no other rank waits"
    awaited_by_all = _all_wait_for_the_first(outstanding, named) if not moments_kept else None
    if awaited_by_all is not None:
        return (
            f"{group_ranks(sorted(named))} alone has something else to do, as when it saves a checkpoint, while all others "
            f"wait for it in {awaited_by_all.name}"
        )
    elsewhere = next(
        (
            operation
            for operation in outstanding.operations
            if {*named}.isdisjoint(operation.members) and standing.stands(operation)
        ),
        None,
    )
    if elsewhere is not None:
        return f"all members have enqueued {elsewhere.name}, too"
    awaited = {rank for operation in outstanding.operations for rank in operation.absent}
    idle = sorted(awaited.intersection(outstanding.idle) - {*named})
    if idle:
        verb, them = ("waits", "it") if len(idle) == 1 else ("wait", "them")
        return f"{group_ranks(idle)} {verb} for nothing, and others wait for {them}, too"
    at_work = {*outstanding.idle} - awaited - {*named}
    if FEW * len(at_work) > len(outstanding.idle) + len(outstanding.of_rank):
        return f"{len(at_work)} ranks wait for nothing, and nobody waits for them"
    if behind and all(_is_behind_by_few(one, moments_kept=moments_kept) for one in behind):
        return f"{group_ranks(sorted(named))} did not complete the last calls that peers have, as dumps of two moments show"
    return None


def sign_in_standing(operations: Sequence[Operation]) -> str | None:
    """What shows that operations that all their ranks have enqueued may be under way; None where nothing does.

    A job on its way is in such a call at almost any moment. One link or device that is stuck keeps one of them from ending.
    """
    first = operations[0]
    if any(one.unequal_halves for one in operations):  # these never end
        return None
    if len(operations) > 1:
        last = in_all_transfers(operations)
        note = f", and {group_ranks(last)} {verb(last, 'takes', 'take')} part in each of these" if last else ""
        return f"{len(operations)} calls are under way at once, such as {first.name} and {operations[1].name}{note}"
    if first.not_begun:
        return (
            f"all ranks have enqueued {first.name}, and the device of {group_ranks(first.not_begun)} may still compute"
        )
    return None


def _is_being_noted(timeline: Timeline, operations: Sequence[Operation]) -> str | None:
    """A collective that ends on all members at once, and whose end the dumps of a few show, and those of most do not."""
    for one in operations:
        through = ended_on(timeline, one)
        if through and FEW * len(through) <= len(one.waiting):
            return f"{one.name} has ended on {group_ranks(through)}, and most others had not noted it"
    return None


def _is_behind_by_few(behind: UncompletedCall, *, moments_kept: bool) -> bool:
    """Whether peers have completed no more calls without the rank than they do from one dump to the next.

    A device that stops keeps its peers from the next collective. So one call tells, where dumps hold when calls ended.
    """
    ahead = max(behind.peers_completed.values(), default=0) - behind.completed
    return not behind.transfer and (1 < ahead <= FEW or (ahead == 1 and not moments_kept))


def _all_wait_for_the_first(outstanding: Outstanding, named: Collection[int]) -> Operation | None:
    """The operation that all ranks but the first one, which is `named`, wait in, and in nothing else."""
    ranks = {*outstanding.of_rank, *outstanding.idle}
    if {*named} != {min(ranks)} or len(outstanding.operations) != 1:
        return None
    (operation,) = outstanding.operations
    return operation if {*operation.waiting} == ranks - {*named} else None


def _are_scattered(outstanding: Outstanding, named: Collection[int]) -> bool:
    """Whether these are more than two ranks, farther apart than those of a host, and no operation lacks all of them."""
    if len(named) <= 2 or max(named) - min(named) < RANKS_OF_A_HOST:
        return False
    return not any({*named} <= {*operation.absent} for operation in outstanding.operations)

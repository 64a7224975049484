"""Where ranks were when gloo ended a job over two calls that had met, in words and lines."""

from __future__ import annotations

from ddpdoctor.analysis.collectives.stacks.aborted_past_a_loop import AbortedPastALoop
from ddpdoctor.analysis.collectives.stacks.aborted_under_a_test import AbortedUnderATest
from ddpdoctor.messages import ways_out
from ddpdoctor.messages.conditions import condition_text
from ddpdoctor.model import Where, group_ranks, verb


def sentence(aborted: AbortedPastALoop) -> str:
    """`rank 1 left its loop, and its next collective met one of ranks 0,2 in it: gloo ended the job`."""
    its = verb(aborted.ranks, "its", "their")
    return (
        f"{group_ranks(aborted.ranks)} left {its} loop, and {its} next collective met one of {group_ranks(aborted.others)} "
        "in it: gloo ended the job"
    )


def sentence_of_a_test(aborted: AbortedUnderATest) -> str:
    """`rank 0 made a call that rank 1 never makes, and it met another one of rank 1: gloo ended the job`."""
    others = group_ranks(aborted.others)
    return (
        f"{group_ranks(aborted.ranks)} made a collective that {others} never {verb(aborted.others, 'calls', 'call')}; it met "
        f"another one of {others}, and gloo ended the job"
    )


def where_of_a_test(aborted: AbortedUnderATest) -> list[Where]:
    """The line of every rank, with the test above those that made the call."""
    test = condition_text(aborted.condition, aborted.frame.file)
    order = sorted(aborted.places, key=lambda rank: (rank not in aborted.ranks, rank))
    return [
        Where.at(aborted.places[rank], rank=rank, note=f"was here{f', {test}' if rank in aborted.ranks else ''}")
        for rank in order
    ]


def where(aborted: AbortedPastALoop) -> list[Where]:
    """The statement by which the ranks left, and the line of every rank."""
    left = [(aborted.frame, aborted.loop)]
    return [
        *([*ways_out.of_loops(left, aborted.ranks)] or ways_out.if_only_one(left, aborted.ranks)),
        *(
            Where.at(place, rank=rank, note="behind the loop" if rank in aborted.ranks else "in the loop")
            for rank, place in sorted(aborted.places.items())
        ),
    ]

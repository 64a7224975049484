"""The turns of the loops that ranks are in, where a name counts them, and what these loops go over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import is_users
from ddpdoctor.evidence.source import CodePlace, SourceCode
from ddpdoctor.evidence.stacks import CountedLoop, Stacks
from ddpdoctor.host.running_jobs import RunningJob
from ddpdoctor.ranks.stacks import Counters


def with_counted_loops(evidence: Evidence, job: RunningJob, counted: Mapping[int, Counters]) -> Evidence:
    """The evidence with the turn of each loop around a line of the user's own; `counted` has the numbers of each process."""
    code = evidence.one(SourceCode)
    pids = {target.rank: target.pid for target in job.targets}
    if code is None:
        return evidence

    def with_turns(rank: int, stacks: Stacks) -> Stacks:
        return replace(stacks, turns=tuple(_turns(stacks, code, counted.get(pids.get(rank, 0), {}))))

    return evidence.with_each(Stacks, with_turns)


def items_of_loops(evidence: Evidence) -> dict[int, frozenset[tuple[str, str, str]]]:
    """By rank, as (file, function, name), what the `for`s around the user's own lines on its stack go over."""
    code = evidence.one(SourceCode)
    found = {}
    for entry in evidence.per_rank(Stacks) or ():
        frames = entry.value.main.frames if entry.value.main is not None else ()
        places = [(frame, code.at(frame.file, frame.line)) for frame in frames if is_users(frame.file)] if code else []
        found[entry.rank] = frozenset(
            (frame.file, frame.function, name)
            for frame, place in places
            if place is not None
            for head in (*(loop.head for loop in place.loops), _text(place))
            for name in _targets(head)
        )
    return found


def _text(place: CodePlace) -> str:
    """The line itself: a rank that waits for the next item stands at the head of the loop, and not in it."""
    at = place.line - place.excerpt_from
    return place.excerpt[at].strip() if 0 <= at < len(place.excerpt) else ""


def _targets(head: str) -> list[str]:
    """The names in front of the `in` of a `for`."""
    word, _, rest = head.partition(" ")
    return re.findall(r"\w+", rest.partition(" in ")[0]) if word == "for" else []


def _turns(stacks: Stacks, code: SourceCode, counters: Counters) -> Iterator[CountedLoop]:
    values = {
        (depth, file, function.rpartition(".")[2], name): number
        for (depth, file, function, name), number in counters.items()
    }
    users = [frame for frame in stacks.main.frames[::-1] if is_users(frame.file)] if stacks.main is not None else []
    for depth, frame in enumerate(users):
        place = code.at(frame.file, frame.line)
        for loop in place.loops if place is not None else ():
            turn = values.get((depth, frame.file, frame.function, loop.counter))
            if turn is not None:
                yield CountedLoop(frame=depth, loop=loop.line, turn=turn)

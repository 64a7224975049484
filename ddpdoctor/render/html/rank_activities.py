"""What each rank does, or how it ended: ranks that do the same share one entry, with the whole stack folded."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.hangs.rank_activity import Activities, RankActivity
from ddpdoctor.derivation import Deriver
from ddpdoctor.evidence import Evidence, by_rank
from ddpdoctor.evidence.frames import Frame, is_users
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.model import group_ranks
from ddpdoctor.render.html.verdict import ShownLine, excerpt

SHOWN_FRAMES = 80
SHOWN_GROUPS = 40
SHOWN_TAIL = 20
MESSAGE_CHARACTERS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFrame:
    """One frame of a stack."""

    text: str
    """File, line and function."""
    users: bool
    """Whether it is in the user's own code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup:
    """Ranks that do the same at the same place, or ended alike."""

    ranks: str
    """`ranks 0-2,5`."""
    number: int
    """How many ranks it has."""
    text: str
    """What they do, or how they ended."""
    spot: str
    """The innermost line of the user's code; empty where none is known."""
    processes: str
    """Process ids and the largest share of a processor; empty after the end."""
    lines: tuple[ShownLine, ...]
    """The source around `spot`; empty where it is not known, or shown elsewhere on the page."""
    stack: tuple[ShownFrame, ...]
    """The frames of the first of these ranks, at most 80, innermost first."""
    of: str
    """Whose stack it is."""
    tail: tuple[str, ...] = ()
    """The last lines that the first of them printed; empty while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSection:
    """What ranks do, and how ranks ended."""

    active: tuple[RankGroup, ...]
    """Groups of ranks that run, the largest first."""
    ended: tuple[RankGroup, ...]
    """Groups of ranks that have ended, the largest first."""
    more: int
    """How many groups are not shown."""


def rank_section(evidence: Evidence, derive: Deriver, shown: Collection[tuple[str, int]]) -> RankSection | None:
    """The groups, the largest first; None where nobody looked at any rank. Excerpts of the places `shown` are left out."""
    active = sorted(_active(evidence, derive, shown), key=lambda group: -group.number)
    ended = sorted(_ended(evidence, shown), key=lambda group: -group.number)
    if not active and not ended:
        return None
    return RankSection(
        active=tuple(active[:SHOWN_GROUPS]),
        ended=tuple(ended[:SHOWN_GROUPS]),
        more=max(0, len(active) - SHOWN_GROUPS) + max(0, len(ended) - SHOWN_GROUPS),
    )


def _active(evidence: Evidence, derive: Deriver, shown: Collection[tuple[str, int]]) -> Iterator[RankGroup]:
    activities = derive(Activities)
    stacks = by_rank(evidence.per_rank(Stacks))
    code = evidence.one(SourceCode)
    alike: dict[tuple[object, ...], list[RankActivity]] = {}
    for one in activities.each if activities is not None else ():
        operation = one.operation if one.waits_for_peers else ""
        alike.setdefault((one.description, operation, one.place), []).append(one)
    for group in alike.values():
        first = group[0]
        operation = f" ({first.operation})" if first.operation and first.waits_for_peers else ""
        main = stacks[first.rank].main if first.rank in stacks else None
        yield RankGroup(
            ranks=group_ranks([one.rank for one in group]),
            number=len(group),
            text=f"{first.description}{operation}",
            spot=_spot(first.place),
            processes=_processes(group),
            lines=_lines(code, first.place, shown),
            stack=_stack(main.frames if main is not None else ()),
            of=f"rank {first.rank}",
        )


def _ended(evidence: Evidence, shown: Collection[tuple[str, int]]) -> Iterator[RankGroup]:
    code = evidence.one(SourceCode)
    alike: dict[tuple[object, ...], list[tuple[int, RankExit]]] = {}
    for entry in evidence.per_rank(RankExit) or ():
        error = entry.value.error
        key = (entry.value.exit_code, entry.value.ended_by_launcher, error and (error.type, error.message, error.stack))
        alike.setdefault(key, []).append((entry.rank, entry.value))
    for group in alike.values():
        rank, ending = group[0]
        frames = ending.error.stack if ending.error is not None else ending.native_stack or ending.left_by
        place = next((frame for frame in frames if is_users(frame.file)), None)
        yield RankGroup(
            ranks=group_ranks([rank for rank, _ in group]),
            number=len(group),
            text=_ending(ending),
            spot=_spot(place),
            processes="",
            lines=_lines(code, place, shown),
            stack=_stack(frames),
            of=f"rank {rank}",
            tail=ending.tail[-SHOWN_TAIL:],
        )


def _lines(code: SourceCode | None, place: Frame | None, shown: Collection[tuple[str, int]]) -> tuple[ShownLine, ...]:
    if code is None or place is None or (place.file, place.line) in shown:
        return ()
    known = code.at(place.file, place.line)
    return excerpt(known) if known is not None else ()


def _ending(ending: RankExit) -> str:
    if ending.signal is not None:
        how = f"ended by signal {ending.signal}"
    elif ending.exit_code is not None:
        how = f"exit code {ending.exit_code}"
    else:
        how = "end not seen"
    by = ", ended by the launcher or by ddpdoctor" if ending.ended_by_launcher else ""
    error = f": {ending.error.type}: {ending.error.message[:MESSAGE_CHARACTERS]}" if ending.error is not None else ""
    return f"{how}{by}{error}"


def _processes(group: list[RankActivity]) -> str:
    states = [one.process for one in group if one.process is not None]
    shares = [state.cpu_share for state in states if state.cpu_share is not None]
    cpu = f"CPU {100 * max(shares):.0f} %" if shares else ""
    pids = ", ".join(str(state.pid) for state in states[:8]) + (", …" if len(states) > 8 else "")
    return ", ".join(part for part in (f"process {pids}" if pids else "", cpu) if part)


def _spot(place: Frame | None) -> str:
    return f"{place.file}:{place.line} in {place.function}" if place is not None else ""


def _stack(frames: tuple[Frame, ...]) -> tuple[ShownFrame, ...]:
    return tuple(ShownFrame(text=_spot(frame), users=is_users(frame.file)) for frame in frames[:SHOWN_FRAMES])

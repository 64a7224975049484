"""Where the ranks of a job look for each other, and whether their launcher serves the rendezvous there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame, users_frame
from ddpdoctor.evidence.launch import EnvOverwrite, EnvOverwrites, Joining
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.model import SkipCheck

_CONNECTS = re.compile(r"trying to connect to \((?P<host>[^,()]+), (?P<port>\d{1,18})\)")
_NAMES_OF_THIS_HOST = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongRendezvous:
    """Ranks that wait where nobody serves the rendezvous."""

    ranks: tuple[int, ...]
    """Who waits, or gave up waiting, in `init_process_group`."""
    used: Mapping[str, tuple[int, ...]]
    """The addresses that they use, as `HOST:PORT`, each with its ranks; empty where only the overwriting line tells."""
    at_fault: tuple[int, ...]
    """Who has another address than the others: `ranks`, or rank 0 where most ranks look for one other port than it serves."""
    tied: bool
    """Whether as many ranks have the port of rank 0 as another one, so that `at_fault` are both sides."""
    given: str | None
    """The address that the launcher gave them, or that rank 0 serves; None where a log does not tell it."""
    of_rank_0: bool
    """Whether `given` is where rank 0 serves it: no launcher does, and no variable tells."""
    overwrites: Mapping[EnvOverwrite, tuple[int, ...]]
    """The lines that overwrite it, each with the ranks that it did so for."""
    place: Frame | None
    """The line that waits."""


def derive(
    joining: PerRank[Joining] | None,
    activities: Activities | None,
    overwrites: EnvOverwrites | None,
    exits: PerRank[RankExit] | None,
) -> WrongRendezvous:
    """The ranks that wait in `init_process_group` at another address than their launcher's; maybe none of those that wait.

    Raises:
        SkipCheck: nothing is known of the ranks.
    """
    joinings = by_rank(joining)
    waiting, refused = dict(_waiting(activities)), dict(_refused(exits))
    if activities is None and exits is None:
        raise SkipCheck("neither the stacks of ranks nor their ends are known")
    seen = {rank: known.overwrites for rank, known in joinings.items() if known.overwrites}
    in_source = overwrites.each if overwrites is not None and not seen else ()
    wrong = _wrong_addresses(joinings, {*waiting, *refused}, refused, in_source)
    at_rank_0 = joinings[0].used if 0 in joinings else None
    of_rank_0 = not wrong and not any(known.given or known.launchers_store for known in joinings.values())
    at_fault, tied = tuple(wrong), False
    if of_rank_0 and at_rank_0 is not None:
        looking = {rank: known.used for rank, known in joinings.items() if rank in {*waiting, *refused}}
        others = {rank: used for rank, used in looking.items() if used is not None}
        wrong = {rank: (used, at_rank_0) for rank, used in sorted(others.items()) if _port(used) != _port(at_rank_0)}
        at_fault, tied = _sides(wrong, others, at_rank_0)
    _, given = next(iter(wrong.values()), (None, None))
    first = next(iter(at_fault), -1)
    lines = {
        rank: _at_fault(seen.get(rank, in_source), given, [] if used is None else [used])
        for rank, (used, _) in wrong.items()
    }
    return WrongRendezvous(
        ranks=tuple(wrong),
        at_fault=at_fault,
        tied=tied,
        used=_ranks_by_address(wrong),
        given=given,
        of_rank_0=of_rank_0,
        overwrites=_by_line(lines),
        place=waiting.get(first) or (refused[first][1] if first in refused else None),
    )


Addresses: TypeAlias = "dict[int, tuple[str | None, str | None]]"
"""By rank, the address that it uses, and the one that it was given."""


def _wrong_addresses(
    joinings: Mapping[int, Joining],
    ranks: Collection[int],
    refused: Mapping[int, tuple[str, Frame | None]],
    in_source: Sequence[EnvOverwrite],
) -> Addresses:
    """Those of these ranks that use another address than their launcher gave them."""
    wrong: Addresses = {}
    several = len({known.used for known in joinings.values()}) > 1
    for rank in sorted(ranks):
        known = joinings.get(rank, Joining(called=True))
        lines = tuple(line for line in known.overwrites or in_source if line.name and not line.conditional)
        used = known.used or (refused[rank][0] if rank in refused else _rewritten(known.given, lines))
        if _differ(used, known.given) and (known.launchers_store or several):
            wrong[rank] = (used, known.given)
        elif known.given is None and rank in refused and used is not None and any(_says(line, used) for line in lines):
            wrong[rank] = (used, None)
    return wrong


def _sides(wrong: Addresses, others: Mapping[int, str], at_rank_0: str) -> tuple[tuple[int, ...], bool]:
    """The ranks at fault, and whether there is no majority, where rank 0 serves another port than ranks look for."""
    if not wrong:
        return (), False
    sides = vote({0: _port(at_rank_0), **{rank: _port(used) for rank, used in others.items()}})
    tied = sides.tied and len(sides.sides) == 2
    return (sides.minority if tied or not sides.tied else tuple(wrong)), tied


def _ranks_by_address(wrong: Addresses) -> dict[str, tuple[int, ...]]:
    """By address that ranks use, these ranks."""
    found: dict[str, tuple[int, ...]] = {}
    for rank, (address, _) in wrong.items():
        if address is not None:
            found[address] = (*found.get(address, ()), rank)
    return found


def _at_fault(lines: Sequence[EnvOverwrite], given: str | None, used: Collection[str]) -> tuple[EnvOverwrite, ...]:
    """The lines that set what the ranks use; where none does, those whose variables the source does not name."""
    named = tuple(
        line
        for line in lines
        if line.name
        and (
            _changes(line, given)
            if given is not None and not line.conditional
            else any(_says(line, address) and (given is None or _changes(line, given)) for address in used)
        )
    )
    return named or (tuple(line for line in lines if not line.name) if used else ())


def _by_line(by_rank: Mapping[int, Sequence[EnvOverwrite]]) -> dict[EnvOverwrite, tuple[int, ...]]:
    ranks: dict[EnvOverwrite, tuple[int, ...]] = {}
    for rank, lines in by_rank.items():
        for line in lines:
            ranks[line] = (*ranks.get(line, ()), rank)
    return ranks


def _waiting(activities: Activities | None) -> Iterator[tuple[int, Frame | None]]:
    for activity in activities.of(Activity.RENDEZVOUS) if activities is not None else ():
        yield activity.rank, activity.place


def _refused(exits: PerRank[RankExit] | None) -> Iterator[tuple[int, tuple[str, Frame | None]]]:
    """The ranks whose error says where they tried to connect to, and the line."""
    for entry in exits or ():
        error: RankError | None = entry.value.error
        while error is not None:
            address = _CONNECTS.search(error.message)
            if address is not None:
                yield entry.rank, (f"{address['host'].strip()}:{address['port']}", users_frame(error.stack))
                break
            error = error.cause


def _rewritten(given: str | None, lines: tuple[EnvOverwrite, ...]) -> str | None:
    """`given` as the lines change it; None where one of them sets an expression whose value nobody knows."""
    if given is None or not lines:
        return None
    host, _, port = given.rpartition(":")
    for line in lines:
        if line.name == "MASTER_PORT":
            if not line.value.isdigit():
                return None
            port = line.value
        elif re.fullmatch(r"[\w.:\-]+", line.value):
            host = line.value
    return f"{host}:{port}"


def _differ(used: str | None, given: str | None) -> bool:
    """Whether two known addresses are not the same; two names of this host are."""
    if used is None or given is None:
        return False
    one, other = used.rpartition(":"), given.rpartition(":")
    if one[2] != other[2]:
        return True
    return one[0] != other[0] and not {one[0], other[0]} <= _NAMES_OF_THIS_HOST


def _port(address: str | None) -> str:
    return (address or "").rpartition(":")[2]


def _changes(line: EnvOverwrite, given: str) -> bool:
    """Whether a line sets another port or host than the launcher gave."""
    host, _, port = given.rpartition(":")
    rewritten = f"{host}:{line.value}" if line.name == "MASTER_PORT" else f"{line.value}:{port}"
    return _differ(rewritten, given)


def _says(line: EnvOverwrite, used: str) -> bool:
    """Whether a line sets the port, or the host, that a rank tried to connect to."""
    host, _, port = used.rpartition(":")
    return line.value == {"MASTER_PORT": port, "MASTER_ADDR": host}.get(line.name)

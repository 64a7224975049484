"""What each rank gave to the call in which it waits, where no flight recorder is at hand: root, size, partner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from ddpdoctor.analysis.collectives.places.same_iteration import in_one_turn
from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.users_line import UNKNOWN_CALL
from ddpdoctor.derivation import derived
from ddpdoctor.evidence import Evidence, by_rank
from ddpdoctor.evidence.frames import Frame, only_users
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import GivenPeer, GivenRoot, GivenSize, Stacks
from ddpdoctor.host.running_jobs import RunningJob
from ddpdoctor.ranks.stacks import Counters, numbers_of
from ddpdoctor.source.stack_lines.call_expressions import call_of_torch
from ddpdoctor.source.stack_lines.call_roots import ROOT_ARGUMENTS, RootArgument, root_argument
from ddpdoctor.source.stack_lines.call_sizes import SizeArgument, size_argument
from ddpdoctor.source.stack_lines.waited_transfers import waited_transfer

C10D = "/torch/distributed/distributed_c10d.py"
Given: TypeAlias = GivenRoot | GivenSize | GivenPeer
PEER_ARGUMENTS = {"send": ("dst", "group_dst"), "recv": ("src", "group_src")}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """The line of one call in which ranks wait."""

    op: str
    """The function of torch.distributed."""
    place: Frame
    """The line that all of these ranks are at."""
    pids: Mapping[int, int]
    """By rank, its process."""
    variables: Mapping[int, Mapping[str, int]]
    """By rank, the whole numbers of the function around the line, by name."""
    one_turn: bool
    """Whether the ranks are in one turn of every loop around the line."""


def with_given_arguments(
    evidence: Evidence, job: RunningJob, counted: Mapping[int, Counters], owner: int | None
) -> Evidence:
    """The evidence with the roots and sizes of ranks, where all wait at one line in one call of the default group.

    The roots also where other ranks wait elsewhere: those may have come through a broadcast or a gather.

    A rank that still has torch's function on its stack tells its root by its arguments. One that spins behind the call tells by
    the expression in the source and its variables, and all tell so what size their tensors have. What may follow from anything
    but the rank and what is equal on all ranks tells nothing: the ranks may be in different turns of a loop, also of one around
    the function. Where names count all these loops, and have one value on all ranks, any variable tells.
    """
    known = derived(evidence, Activities)
    if (
        known is None
        or len(known.each) < 2
        or evidence.per_rank(FlightRecord)
        or not all(one.waits_for_peers and one.stands_still for one in known.each)
    ):
        return evidence
    evidence = evidence.with_facts({**_peers(known, job, owner), **_waited_peers(known, evidence, job, counted, owner)})
    site = _site(known, evidence, job, counted)
    if site is None:
        return evidence
    roots = _roots(site, owner)
    sizes = _sizes(site, owner) if len(site.pids) == len(known.each) else {}
    evidence = evidence.with_facts(
        {rank: GivenRoot(op=site.op, root=root, place=site.place) for rank, root in roots.items()}
    )
    return evidence.with_facts(
        {rank: GivenSize(op=site.op, size=size, place=site.place) for rank, size in sizes.items()}
    )


def _site(known: Activities, evidence: Evidence, job: RunningJob, counted: Mapping[int, Counters]) -> CallSite | None:
    sites = {(one.operation, one.place) for one in known.each}
    if len(sites) > 1:
        sites = {(op, place) for op, place in sites if op in ROOT_ARGUMENTS}
    op, place = next(iter(sites), ("", None))
    if len(sites) != 1 or place is None:
        return None
    ranks = {one.rank for one in known.each if (one.operation, one.place) == (op, place)}
    pids = {target.rank: target.pid for target in job.targets if target.rank in ranks}
    stacks = [entry.value for entry in evidence.per_rank(Stacks) or () if entry.rank in ranks]
    code = evidence.one(SourceCode)
    return CallSite(
        op=op,
        place=place,
        pids=pids,
        variables={rank: _variables(counted.get(pid, {}), place.file, place.function) for rank, pid in pids.items()},
        one_turn=all(in_one_turn(one, other, code) for one, other in pairwise(stacks)),
    )


def _peers(known: Activities, job: RunningJob, owner: int | None) -> dict[int, GivenPeer]:
    """By rank whose stack shows a send or a receive in the default group, its partner."""
    found = {}
    for op, names in PEER_ARGUMENTS.items():
        waiting = {one.rank: one.place for one in known.each if one.operation == op and one.place is not None}
        pids = {target.rank: target.pid for target in job.targets if target.rank in waiting}
        arguments = numbers_of([*pids.values()], file=C10D, function=op, names=names) if pids else {}
        for rank, pid in pids.items():
            place, given = waiting[rank], arguments.get(pid, {})
            peer = given.get(names[0])
            if peer is not None and call_of_torch(place.file, place.line, op, owner) is not None:
                found[rank] = GivenPeer(op=op, peer=peer, place=place)
    return found


def _waited_peers(
    known: Activities, evidence: Evidence, job: RunningJob, counted: Mapping[int, Counters], owner: int | None
) -> dict[int, GivenPeer]:
    """By rank that waits for a send or receive that it has issued, its partner, by the source and the rank's variables."""
    pids = {target.rank: target.pid for target in job.targets}
    stacks = by_rank(evidence.per_rank(Stacks))
    found = {}
    for one in known.each:
        place = one.place
        if place is None or one.operation != UNKNOWN_CALL:
            continue
        main = stacks[one.rank].main if one.rank in stacks else None
        mine = [*only_users(main.frames)] if main is not None else []
        waited = waited_transfer(mine[mine.index(place) :] if place in mine else [place], owner)
        if waited is None:
            continue
        numbers = _variables(counted.get(pids.get(one.rank, 0), {}), waited.made.file, waited.made.function)
        peer = waited.partner.value(numbers, one.rank)
        if peer is not None:
            found[one.rank] = GivenPeer(op=waited.op, peer=peer, place=waited.made)
    return found


def _roots(site: CallSite, owner: int | None) -> dict[int, int]:
    """By rank its root; empty where one is not known."""
    if site.op not in ROOT_ARGUMENTS or call_of_torch(site.place.file, site.place.line, site.op, owner) is None:
        return {}
    names = ROOT_ARGUMENTS[site.op][0]
    arguments = numbers_of([*site.pids.values()], file=C10D, function=site.op, names=names)
    given = {rank: arguments.get(pid, {}) for rank, pid in site.pids.items()}
    roots = {rank: of_rank.get(names[0], of_rank.get(names[1])) for rank, of_rank in given.items()}
    if None in roots.values() or not site.one_turn:
        argument = root_argument(site.place.file, site.place.line, site.op, owner)
        if argument is None or not _tells(argument, site):
            return {}
        for rank, root in roots.items():
            roots[rank] = argument.value(site.variables[rank], rank) if root is None else root
    known = {rank: root for rank, root in roots.items() if root is not None}
    return known if {*known} == {*site.pids} else {}


def _sizes(site: CallSite, owner: int | None) -> dict[int, tuple[int, ...]]:
    """By rank the size of its tensor; empty where one is not known."""
    argument = size_argument(site.place.file, site.place.line, site.op, owner)
    if argument is None or not _tells(argument, site):
        return {}
    values = {rank: argument.value(site.variables[rank], rank) for rank in site.pids}
    sizes = {rank: size for rank, size in values.items() if size is not None}
    return sizes if {*sizes} == {*site.pids} else {}


def _variables(counters: Counters, file: str, function: str) -> dict[str, int]:
    """The whole numbers of the innermost frame of this function, by name."""
    here = {key: number for key, number in counters.items() if key[1] == file and key[2].rpartition(".")[2] == function}
    innermost = max((key[0] for key in here), default=0)
    return {key[3]: number for key, number in here.items() if key[0] == innermost and isinstance(number, int)}


def _tells(argument: RootArgument | SizeArgument, site: CallSite) -> bool:
    """Whether each variable of the expression is known on all ranks and has one value there, or is the rank on each.

    In one turn of all loops a variable may have any value, and one that the loops assign has its own in this turn.
    """
    if argument.varies and not site.one_turn:
        return False
    for name in argument.names:
        values = {rank: known[name] for rank, known in site.variables.items() if name in known}
        is_the_rank = name in argument.ranks and all(rank == value for rank, value in values.items())
        if {*values} != {*site.variables}:
            return False
        if len({*values.values()}) > 1 and not is_the_rank and not site.one_turn:
            return False
    return True

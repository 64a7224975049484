"""The root that each rank gave to the collective in which it waits, where no flight recorder is at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.engine import derived
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.stacks import GivenRoot
from ddpdoctor.host.running_jobs import RunningJob
from ddpdoctor.ranks.stacks import Counters, numbers_of
from ddpdoctor.source.call_roots import ROOT_ARGUMENTS, RootArgument, root_argument

C10D = "/torch/distributed/distributed_c10d.py"


def with_given_roots(
    evidence: Evidence, job: RunningJob, counted: Mapping[int, Counters], owner: int | None
) -> Evidence:
    """The evidence with the roots of ranks, where all wait at one line in one call of the default group and all roots are known.

    A rank that still has torch's function on its stack tells by its arguments. One that spins behind the call tells by the
    expression in the source and its variables. A root that may follow from anything but the rank and what is equal on all ranks
    tells nothing: the ranks may be in different turns of a loop, also of one around the function.
    """
    known = derived(evidence, Activities)
    if (
        known is None
        or evidence.per_rank(FlightRecord)
        or not all(one.waits_for_peers and one.stands_still for one in known.each)
    ):
        return evidence
    waiting = {one.rank: one for one in known.waiting if one.operation in ROOT_ARGUMENTS}
    sites = {(one.operation, one.place) for one in waiting.values()}
    if len(waiting) < 2 or len(waiting) < len(known.each) or len(sites) != 1:
        return evidence
    op, place = sites.pop()
    argument = root_argument(place.file, place.line, op, owner) if place is not None else None
    if place is None or argument is None or argument.varies:
        return evidence
    names = ROOT_ARGUMENTS[op][0]
    pids = {target.rank: target.pid for target in job.targets if target.rank in waiting}
    arguments = numbers_of([*pids.values()], file=C10D, function=op, names=names)
    variables = {rank: _variables(counted.get(pid, {}), place.file, place.function) for rank, pid in pids.items()}
    if not _differ_by_rank_alone(argument, variables):
        return evidence
    roots = {}
    for rank, pid in pids.items():
        given = arguments.get(pid, {})
        root = given.get(names[0], given.get(names[1]))
        if root is None:
            root = argument.value(variables[rank], rank)
        if root is not None:
            roots[rank] = root
    if {*roots} != {*waiting}:
        return evidence
    facts = {rank: (GivenRoot(op=op, root=root, place=place),) for rank, root in roots.items()}
    ranks = tuple(replace(found, facts=(*found.facts, *facts.get(found.rank, ()))) for found in evidence.ranks)
    return replace(evidence, ranks=ranks)


def _variables(counters: Counters, file: str, function: str) -> dict[str, int]:
    """The whole numbers of the innermost frame of this function, by name."""
    here = {key: number for key, number in counters.items() if key[1] == file and key[2].rpartition(".")[2] == function}
    innermost = max((key[0] for key in here), default=0)
    return {key[3]: number for key, number in here.items() if key[0] == innermost and isinstance(number, int)}


def _differ_by_rank_alone(argument: RootArgument, variables: Mapping[int, Mapping[str, int]]) -> bool:
    """Whether each variable of the expression is known on all ranks and has one value there, or is the rank on each."""
    for name in argument.names:
        values = {rank: found[name] for rank, found in variables.items() if name in found}
        is_the_rank = name in argument.ranks and all(rank == value for rank, value in values.items())
        if {*values} != {*variables} or (len({*values.values()}) > 1 and not is_the_rank):
            return False
    return True

"""A job that is stuck right now and that nobody prepared: looked at from outside, with what it wrote itself."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import psutil

from ddpdoctor.analysis.collectives.groups.desync import Cause
from ddpdoctor.analysis.collectives.stacks.stack_desync import innermost_counter
from ddpdoctor.analysis.collectives.stacks.two_sides import StackDesync
from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.ranks_at_work import is_at_work
from ddpdoctor.analysis.hangs.stack_patterns import NEVER_HEALTHY, Activity
from ddpdoctor.derivation import derived
from ddpdoctor.evidence import Evidence, Missing, RankFacts
from ddpdoctor.evidence.frames import is_users
from ddpdoctor.evidence.launch import Joining
from ddpdoctor.evidence.process import ProcessState
from ddpdoctor.evidence.ranks import JobSize, RankExit
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import LoopTurn, Stacks
from ddpdoctor.host import processes
from ddpdoctor.host.ended_ranks import ended_under, ended_under_torchrun
from ddpdoctor.host.owned_files import other_user
from ddpdoctor.host.processes import exit_code
from ddpdoctor.host.running_jobs import RunningJob, joinings_of
from ddpdoctor.launch.process_files import maps_of
from ddpdoctor.messages.activities import lines
from ddpdoctor.model import absent_ranks, group_ranges, group_ranks
from ddpdoctor.ranks import nccl_ras, own_dumps
from ddpdoctor.ranks.snapshot import examine
from ddpdoctor.ranks.spawned_numbers import numbered
from ddpdoctor.ranks.stacks import FrameVariables, addresses_of, numbers_of, variables_of
from ddpdoctor.ranks.wakes import bytes_within, wakes_within
from ddpdoctor.source.stack_lines.context import source_of
from ddpdoctor.source.stack_lines.env_overwrites import overwrites_of
from ddpdoctor.workflows.call_arguments import with_given_arguments
from ddpdoctor.workflows.counted_loops import items_of_loops, with_counted_loops
from ddpdoctor.workflows.lint_hints import collectives_of_some

MOST_NAMED = 16  # processes in one note
ENDED = "every rank of the job ended before it could be looked at"
LONGER_LOOK_SECONDS = (
    8.0  # without py-spy, where ranks sleep in their waits: a step of a large model takes some seconds
)
# the function of PyTorch in which a rank waits for the store, with its arguments for the address
MAKES_THE_STORE = {
    "file": "/torch/distributed/rendezvous.py",
    "function": "_create_c10d_store",
    "host": "hostname",
    "port": "port",
}
CANNOT_ANSWER = "TtDZX"  # states of processes in which py-spy would wait for them
LOOK_SECONDS = 2.0  # between two looks: longer than a step of most jobs, so that one that goes on is seen to move


def look(job: RunningJob) -> Evidence:
    """What every rank of `job` on this host is doing."""
    host, job = socket.gethostname(), numbered(job)
    before_looks = _variables(job)
    counted_before = {pid: seen.numbers for pid, seen in before_looks.items()}
    requests = own_dumps.request(job.targets, job.environ)
    facts, missing = examine(job.targets, host=host, seconds=LOOK_SECONDS)
    facts = _with_dumps(facts, job, requests)
    having = {found.rank for found in facts if any(isinstance(fact, FlightRecord) for fact in found.facts)}
    facts = _with_joining(facts, job)
    frames = [frame for found in facts for fact in found.facts if isinstance(fact, Stacks) for frame in fact.frames]
    owner = other_user(job.targets[0].pid)
    sources = (source_of(frames, owner), overwrites_of(frames, owner))
    before = _ended_before(job)
    ends = _ends(job, missing, before)
    evidence = Evidence(
        job=(*(source for source in sources if source is not None), JobSize(ranks=job.world_size)),
        ranks=(
            *(found for found in facts if found.rank not in ends),
            *(RankFacts(rank=rank, host=host, facts=(end,)) for rank, end in ends.items()),
        ),
        missing=tuple(lost for lost in missing if lost.kind != FlightRecord.__name__ or lost.rank not in having),
        about_job=True,
    )
    evidence = _looked_longer(evidence, job)
    evidence = with_counted_loops(_with_counts(evidence, job, before_looks), job, counted_before)
    evidence = with_given_arguments(evidence, job, counted_before, owner)
    evidence = _with_calls_of_some(_with_turns(evidence, job), job)
    unread, seen, activities = tuple(_unread(missing)), _seen(facts), derived(evidence, Activities)
    return replace(
        evidence,
        notes=(
            *(lines(activities) if activities is not None else ()),
            *_ended(missing),
            *_not_here(job, before),
            *((job.unread_agent,) if job.unread_agent else ()),
            *(unread if seen else ()),
            *_ras(job),
        ),
        undecided=() if seen else unread or (ENDED,),
    )


def _looked_longer(evidence: Evidence, job: RunningJob) -> Evidence:
    """The evidence with a longer look at ranks that sleep in their waits, where nothing else tells that the job hangs.

    A step can be longer than the first looks, and every rank may stand at the same line of each step. A slow server may send
    nothing for some seconds.
    """
    known = derived(evidence, Activities)
    if known is None or known.of(*NEVER_HEALTHY):
        return evidence
    recorded = {entry.rank for entry in evidence.per_rank(FlightRecord) or ()}
    numbers = {one.rank for one in known.waiting if one.moves is False and not one.spins} - recorded
    awaited = (one for one in known.of(Activity.SOCKET, Activity.UNKNOWN) if not is_at_work(one))
    silent = [one.process for one in awaited if one.process is not None]
    moved = bytes_within({one.pid: one.sockets for one in silent if one.sockets}, LONGER_LOOK_SECONDS)
    main = {entry.rank: entry.value.main for entry in evidence.per_rank(Stacks) or ()}
    threads = {rank: thread.os_id or 0 for rank, thread in main.items() if thread is not None}
    asleep = [replace(one, trains=threads.get(one.rank, 0)) for one in job.targets if one.rank in numbers]
    woken = wakes_within(asleep, LONGER_LOOK_SECONDS)
    return evidence.with_each(ProcessState, lambda _, state: _woken(state, woken, moved))


def _variables(job: RunningJob) -> dict[int, FrameVariables]:
    """By process, the variables of the user's functions; a process that is stopped would not answer."""
    samples = {pid: processes.sample(pid) for pid in job.pids}
    return variables_of([pid for pid, one in samples.items() if one is not None and one.state not in CANNOT_ANSWER])


def _with_counts(evidence: Evidence, job: RunningJob, before: Mapping[int, FrameVariables]) -> Evidence:
    """The evidence with what the functions of each rank counted since, where a rank waits and none is known never to go on.

    So does what a `for` around one of its lines goes over, whatever it is: a line of a file, a batch.
    """
    known = derived(evidence, Activities)
    if known is None or not known.waiting or known.of(*NEVER_HEALTHY):
        return evidence
    now, items = _variables(job), items_of_loops(evidence)
    changed = {
        target.rank: tuple(sorted(_changed(then, here, items.get(target.rank, frozenset()))))
        for target in job.targets
        if (then := before.get(target.pid)) and (here := now.get(target.pid))
    }
    return evidence.with_each(Stacks, lambda rank, stacks: replace(stacks, counts=changed.get(rank, ())))


def _changed(then: FrameVariables, here: FrameVariables, items: AbstractSet[tuple[str, str, str]]) -> set[str]:
    """The names of the numbers that changed between two looks, and of those of `items` (file, function, name) that did."""
    counted = {key[-1] for key, number in then.numbers.items() if here.numbers.get(key, number) != number}
    named = ((key, text) for key, text in then.others.items() if (key[1], key[2].rpartition(".")[2], key[3]) in items)
    return counted | {key[-1] for key, text in named if here.others.get(key, text) != text}


def _with_turns(evidence: Evidence, job: RunningJob) -> Evidence:
    """The evidence with the turn of every rank in the loop that some have left and others have not, where a name counts them."""
    parted = derived(evidence, StackDesync)
    loop, frame = (parted.comparison.loop, parted.comparison.frame) if parted is not None else (None, None)
    if parted is None or parted.cause is not Cause.LEFT or loop is None or frame is None or not loop.counter:
        return evidence
    inner = innermost_counter(parted, evidence.per_rank(Stacks), evidence.one(SourceCode))
    names = tuple(dict.fromkeys(name for name in (loop.counter, inner) if name))
    values = numbers_of(job.pids, file=frame.file, function=frame.function, names=names)
    turns_of = {
        target.rank: LoopTurn(loop=loop.line, turn=turns[loop.counter], inner=turns.get(inner))
        for target in job.targets
        if loop.counter in (turns := values.get(target.pid, {}))
    }
    return evidence.with_facts(turns_of)


def _with_calls_of_some(evidence: Evidence, job: RunningJob) -> Evidence:
    """The evidence with the calls that only some ranks make, by the source alone, where all ranks wait for each other."""
    known, code = derived(evidence, Activities), evidence.one(SourceCode)
    each = known.each if known is not None else ()
    if code is None or not each or not all(one.waits_for_peers and one.stands_still for one in each):
        return evidence
    code = replace(code, requests=(*code.requests, *collectives_of_some(users_files(job, evidence))))
    return replace(evidence, job=tuple(code if isinstance(fact, SourceCode) else fact for fact in evidence.job))


def _woken(state: ProcessState, woken: Mapping[int, int], moved: Mapping[int, int]) -> ProcessState:
    """The state with how often the main thread woke in the longer look, and what its connection moved."""
    if state.pid in woken:
        state = replace(state, wakes=(state.wakes or 0) + woken[state.pid])
    if state.pid in moved:
        state = replace(state, connection_bytes=(state.connection_bytes or 0) + moved[state.pid])
    return state


def unexplained(evidence: Evidence) -> tuple[str, ...]:
    """That every rank here waits for others, or for a key of the store, and none moved between two looks; else nothing."""
    known, size = derived(evidence, Activities), evidence.one(JobSize)
    activities = known.each if known is not None else ()
    waits = (activity.waits_for_peers or activity.kind is Activity.STORE for activity in activities)
    if not activities or not all(waits) or not all(activity.stands_still for activity in activities):
        return ()
    ended = [entry.rank for entry in evidence.per_rank(RankExit) or () if entry.value.exit_code == 0]
    if ended:
        return (f"every rank that still runs waits for others, and {group_ranks(ended)} ended with exit code 0",)
    gone = [lost.rank for lost in evidence.missing if lost.kind == ProcessState.__name__ and lost.rank is not None]
    if gone:
        message = f"every rank that still runs waits for others, and {group_ranks(gone)} ended during the inspection"
        return (f"{message}; run `ddpdoctor hang` again",)
    if size is not None and len(activities) < size.ranks:
        return ("every rank on this host waits for others: the rank they wait for is on another host",)
    if all(activity.kind is Activity.STORE for activity in activities):
        asked = f"every rank waits for a key of the store, and none was set for {LOOK_SECONDS:.0f} s"
        return (
            f"{asked}; see which rank should set each key, and whether it does, under the same name and in the same store",
        )
    still = (
        f"every rank waits for others, none made progress for {LOOK_SECONDS:.0f} s, and their stacks do not show why"
    )
    prepared = (
        f"run the job under `ddpdoctor watch`, or on NCCL with {own_dumps.PIPE} set, to see what each rank called"
    )
    return (f"{still}; {prepared}",)


def users_files(job: RunningJob, evidence: Evidence) -> frozenset[str]:
    """The files of the user's own lines in the stacks of all ranks; none of another user's, who may name files of ours."""
    if any(other_user(pid) is not None for pid in job.pids):
        return frozenset()
    return frozenset(
        frame.file for entry in evidence.per_rank(Stacks) or () for frame in entry.value.frames if is_users(frame.file)
    )


def _seen(facts: tuple[RankFacts, ...]) -> bool:
    """Whether anything but the states of processes is known: without stacks and recorders nothing can be said."""
    return any(isinstance(fact, Stacks | FlightRecord) for found in facts for fact in found.facts)


def _ended_before(job: RunningJob) -> dict[int, int | None]:
    """By rank that had ended on this host before the inspection, its exit code where it is known."""
    ranks = {target.pid: target.rank for target in job.targets}
    if job.spawned_by is not None and not job.guessed:
        ended = ended_under(job.spawned_by, job.world_size, ranks)
    else:
        ended = ended_under_torchrun(ranks)
    return {rank: code for rank, code in ended.items() if rank not in ranks.values()}


def _ends(job: RunningJob, missing: Sequence[Missing], before: Mapping[int, int | None]) -> dict[int, RankExit]:
    """By rank, how those that are gone have ended, in order of rank; without those of which it is not known."""
    ends = {rank: RankExit(exit_code=code) for rank, code in before.items() if code is not None}
    gone = {lost.rank for lost in missing if lost.kind == ProcessState.__name__}
    for target in job.targets:
        if target.rank in gone and (code := exit_code(target.pid)) is not None:
            ends[target.rank] = RankExit(exit_code=code, pid=target.pid)
    return dict(sorted(ends.items()))


def _not_here(job: RunningJob, before: Mapping[int, int | None]) -> Iterator[str]:
    launcher = "mp.spawn" if job.spawned_by is not None else "torchrun"
    for code in sorted({*before.values()}, key=lambda one: (one is None, one)):
        named = f"{group_ranks([rank for rank in before if before[rank] == code])} of {job.world_size} ended"
        if code == 0:
            yield f"{named} with exit code 0: {launcher} would have ended the job otherwise"
        elif code is None:
            yield f"{named}, and their exit codes are not known: {launcher} has not asked for them yet"
        else:
            yield f"{named} with exit code {code}: {launcher} has not asked for it yet"
    absent = absent_ranks(job.world_size, [*before, *(target.rank for target in job.targets)])
    if absent and not before:
        yield f"{group_ranges(absent)} of {job.world_size} do not run on this host: run `ddpdoctor hang` on their hosts too"
    if job.guessed or job.spawned_by is not None:
        how = (
            "by the age of their processes, as mp.spawn starts them in order"
            if job.guessed
            else "as mp.spawn numbered them"
        )
        pids = ", ".join(f"{target.rank} is process {target.pid}" for target in job.targets[:MOST_NAMED])
        yield f"the ranks are numbered {how}: {pids}"


def _ended(missing: tuple[Missing, ...]) -> Iterator[str]:
    for lost in missing:
        if lost.kind == ProcessState.__name__ and lost.rank is not None:
            yield f"rank {lost.rank} ended during the inspection: {lost.reason}"


def _unread(missing: tuple[Missing, ...]) -> Iterator[str]:
    """Why there are no stacks: once for all ranks that differ in nothing but the number of their process."""
    reasons: dict[str, tuple[str, list[int]]] = {}
    for lost in missing:
        if lost.kind == Stacks.__name__ and lost.rank is not None:
            kind = re.sub(r"\bprocess \d+\b", "process", lost.reason)
            reasons.setdefault(kind, (lost.reason, []))[1].append(lost.rank)
    for reason, ranks in reasons.values():
        yield f"no stacks of {group_ranks(ranks)}: {reason}"


def _with_joining(facts: Sequence[RankFacts], job: RunningJob) -> tuple[RankFacts, ...]:
    """The ranks' facts with where each was told to look for the others, and where it does as far as its agent knows."""
    targets = {target.rank: target for target in job.targets}
    joinings = joinings_of(job.pids)
    looks_at = addresses_of(_joining_now(facts, job), **MAKES_THE_STORE)
    complete = []
    for found in facts:
        target = targets[found.rank]
        joining = joinings.get(target.pid)
        if target.pid in looks_at:
            joining = replace(joining or Joining(called=True), used=looks_at[target.pid])
        if target.agent is not None:
            joining = target.agent.joining(joining or Joining(called=True))
        joined = () if joining is None else (joining,)
        complete.append(replace(found, facts=(*found.facts, *joined)))
    return tuple(complete)


def _joining_now(facts: Sequence[RankFacts], job: RunningJob) -> list[int]:
    """The processes whose stacks show them making their client of the store."""
    file, function = MAKES_THE_STORE["file"], MAKES_THE_STORE["function"]
    waiting = {
        found.rank
        for found in facts
        for fact in found.facts
        if isinstance(fact, Stacks)
        if any(frame.function == function and frame.file.endswith(file) for frame in fact.frames)
    }
    return [target.pid for target in job.targets if target.rank in waiting]


def _with_dumps(facts: Sequence[RankFacts], job: RunningJob, requests: own_dumps.Requests) -> tuple[RankFacts, ...]:
    """The ranks' facts with the flight recorders that PyTorch itself has dumped in this run, where the agent has told none."""
    with_recorder = {found.rank for found in facts if any(isinstance(fact, FlightRecord) for fact in found.facts)}
    dumps = dict(
        own_dumps.collect([target for target in job.targets if target.rank not in with_recorder], job.environ, requests)
    )
    return tuple(
        replace(found, facts=(*found.facts, dump))
        if (dump := dumps.get(found.rank)) is not None and _of_one_program(dump, found)
        else found
        for found in facts
    )


def _of_one_program(dump: FlightRecord, found: RankFacts) -> bool:
    """Whether the dump may be this rank's: another job may have written to the same path, with stacks of another program."""
    theirs = {frame.file for frame in dump.frames if is_users(frame.file)}
    ours = {
        frame.file for fact in found.facts if isinstance(fact, Stacks) for frame in fact.frames if is_users(frame.file)
    }
    return not theirs or not ours or not theirs.isdisjoint(ours)


def _ras(job: RunningJob) -> Iterator[str]:
    """What NCCL's RAS threads complain of, where NCCL is loaded."""
    if "/libnccl" not in maps_of(job.targets[0].pid):
        return
    answer = nccl_ras.ask(job.environ.get("NCCL_RAS_ADDR") or nccl_ras.ADDRESS)
    here = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    yield from nccl_ras.complaints(answer, {target.pid: target.rank for target in job.targets}, here)

"""Everything that can be learnt of running ranks within seconds, in parallel, whatever state they are in."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ddpdoctor.analysis.hangs.training_threads import training_threads
from ddpdoctor.evidence import Missing, RankFacts
from ddpdoctor.evidence.process import ProcessState
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.stacks import Stacks, Thread
from ddpdoctor.host import connections, processes
from ddpdoctor.logs.faulthandler_stacks import from_faulthandler
from ddpdoctor.ranks.agent_client import NoAnswer, ask_worker_server
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.ranks.live_dumps import ANSWER_SECONDS, LiveDump, dump_of, gradients_in, record_in
from ddpdoctor.ranks.stack_series import combined
from ddpdoctor.ranks.stacks import NoStacks, py_spy_each
from ddpdoctor.ranks.target import Target
from ddpdoctor.ranks.threads_at_work import ThreadUsage, at_work, uses_of
from ddpdoctor.ranks.wakes import sleeps_of, wakes_since

SECONDS = 1.0  # from the first to the last snapshot: a rank that computes moves, and uses a CPU, in far less
SNAPSHOTS = 3  # of the stacks of a rank: two may fall on one line of a loop by chance
ENDED = "ZX"  # a zombie shows nothing any more; its launcher has not collected it yet
MOST_AT_ONCE = 64
MOST_WORKERS = 8  # loader workers whose stacks are read, a rank

_Threads: TypeAlias = tuple[str, tuple[Thread, ...]]
"""Where the threads are from, and the threads."""


def examine(
    targets: Sequence[Target], *, host: str, seconds: float = SECONDS
) -> tuple[tuple[RankFacts, ...], tuple[Missing, ...]]:
    """What each rank is doing, seen several times within `seconds`, with the reasons for what could not be learnt."""
    facts, missing = [], []
    for target, shown in zip(targets, _examined(targets, seconds), strict=True):
        found: list[object] = []
        for kind, fact in (
            (Stacks, shown.stacks),
            (FlightRecord, record_in(shown.dump)),
            (ProcessState, shown.process),
        ):
            if isinstance(fact, str):
                missing.append(Missing(kind=kind.__name__, rank=target.rank, reason=fact))
            else:
                found.append(fact)
        found += gradients_in(shown.dump)
        facts.append(RankFacts(rank=target.rank, host=host, facts=tuple(found)))
    return tuple(facts), tuple(missing)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What one rank showed; a text is the reason why it did not."""

    stacks: Stacks | str
    dump: LiveDump | str
    process: ProcessState | str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """Several snapshots of the stacks of all ranks, and what they answered meanwhile."""

    threads: list[dict[Target, _Threads | str]]
    """Of each snapshot, the threads of each rank; after the first one, only of ranks that showed any."""
    dumps: dict[Target, LiveDump | str]
    """The flight recorder of each rank."""
    used: dict[Target, tuple[dict[int, ThreadUsage], dict[int, ThreadUsage]]]
    """What the threads of each rank had used at the first snapshot and at the last one."""
    seconds: float
    """How long that was apart."""
    training: dict[Target, int] = field(default_factory=dict)
    """The threads that train, of ranks whose agent does not tell and whose main thread does not."""
    wakes: dict[int, int] = field(default_factory=dict)
    """By thread that trains, how often it woke between snapshots."""

    def stacks_of(self, target: Target) -> Stacks | str:
        """The stacks of one rank, with what changed between the snapshots."""
        seen = [threads[target] for threads in self.threads if target in threads]
        if isinstance(seen[0], str):
            return seen[0]
        dump = self.dumps[target]
        answered = isinstance(dump, LiveDump) and dump.interpreter_answered
        told = self.training.get(target, 0)
        each = [Stacks(source=one[0], threads=with_training(one[1], told)) for one in seen if not isinstance(one, str)]
        stacks = combined(each, has_agent=target.agent is not None, answered=answered)
        if target in self.used and at_work([one.threads for one in each], *self.used[target], self.seconds):
            return replace(stacks, others_work=True)
        return stacks


def _examined(targets: Sequence[Target], seconds: float) -> list[_Shown]:
    """What each target showed. All are asked together, as a program per rank and snapshot would cost many times as much."""
    before = {target.pid: processes.sample(target.pid, target.thread) for target in targets}
    alive = [target for target in targets if (sample := before[target.pid]) is not None and sample.state not in ENDED]
    waited_for = {target.pid: sockets for target in alive if (sockets := connections.waited_for(target.pid))}
    moved_before = connections.moved_bytes() if waited_for else {}
    # py-spy must not wait for a process that is stopped to stop
    stopped = {target.pid for target in alive if (sample := before[target.pid]) and sample.state in "TtD"}
    series = _series(alive, stopped, seconds)
    after = {target.pid: processes.sample(target.pid, target.thread) for target in alive}
    moved = connections.moved_between(waited_for, moved_before, connections.moved_bytes() if waited_for else {})
    states = {}
    for target in alive:
        earlier, later = before[target.pid], after[target.pid]
        if target in series.training and earlier is not None:
            earlier = _waiting_in(earlier, processes.sample(target.pid, series.training[target]))
        if earlier is not None and later is not None and later.state not in ENDED:
            states[target] = processes.state_between(
                target.pid,
                earlier,
                later,
                wakes=None if target in series.training else series.wakes.get(target.thread),
                sockets=waited_for.get(target.pid, ()),
                connection_bytes=moved.get(target.pid),
            )
    states = _with_worker_stacks(states)
    stacks = _with_native({target: series.stacks_of(target) for target in alive})
    gone = {target: f"process {target.pid} has ended" for target in targets}
    return [
        _Shown(
            stacks=stacks.get(target, gone[target]),
            dump=series.dumps.get(target, gone[target]),
            process=states.get(target, gone[target]),
        )
        for target in targets
    ]


def _series(alive: Sequence[Target], stopped: Collection[int], seconds: float) -> _Series:
    """Snapshots of these ranks within `seconds`; between the first two, their recorders are asked for."""
    with ThreadPoolExecutor(max_workers=max(1, min(MOST_AT_ONCE, len(alive)))) as pool:
        began = time.monotonic()
        threads = [_threads(alive, stopped, pool)]
        used_before, used_at = _uses(threads[0]), time.monotonic()
        answers = pool.map(lambda target: dump_of(target.agent, stopped=target.pid in stopped), alive)
        dumps = dict(zip(alive, answers, strict=True))
        again = [target for target in alive if not isinstance(threads[0][target], str)]
        wakes: dict[int, int] = {}
        for number in range(1, SNAPSHOTS):
            asleep = sleeps_of(again)
            time.sleep(max(0.0, number * seconds / (SNAPSHOTS - 1) - (time.monotonic() - began)))
            for thread, since in wakes_since(asleep).items():
                wakes[thread] = wakes.get(thread, 0) + since
            threads.append(_threads(again, stopped, pool))
    shown = {target: found[1] for target, found in threads[0].items() if not isinstance(found, str)}
    agents_tell = any(target.agent is not None and target.agent.header.thread for target in alive)
    used_after = _uses(threads[0])
    used = {target: (before, used_after[target]) for target, before in used_before.items()}
    return _Series(
        threads=threads,
        dumps=dumps,
        used=used,
        seconds=time.monotonic() - used_at,
        training={} if agents_tell else training_threads(shown),
        wakes=wakes,
    )


def _threads(
    targets: Sequence[Target], stopped: Collection[int], pool: ThreadPoolExecutor
) -> dict[Target, _Threads | str]:
    """By target, the source and the threads, or why there are none."""
    found = py_spy_each([target.pid for target in targets], stopped=stopped)

    def of(target: Target) -> _Threads | str:
        threads = found[target.pid]
        if not isinstance(threads, NoStacks):
            return "py-spy", with_training(threads, target.agent.header.thread if target.agent is not None else 0)
        if target.agent is None or target.pid in stopped:
            return str(threads)
        return _from_worker_server(target.agent, str(threads))

    return dict(zip(targets, pool.map(of, targets), strict=True))


def with_training(threads: tuple[Thread, ...], number: int) -> tuple[Thread, ...]:
    """The threads, of which the one that trains is the main one, where the kernel's number of it is known."""
    if not any(thread.os_id == number for thread in threads):
        return threads
    return tuple(replace(thread, main=thread.os_id == number) for thread in threads)


def _waiting_in(process: processes.Sample, thread: processes.Sample | None) -> processes.Sample:
    """The sample of a process with what another thread of it waits in."""
    if thread is None:
        return process
    return replace(
        process,
        system_call=thread.system_call,
        waits_on=thread.waits_on,
        kernel_function=thread.kernel_function,
    )


def _from_worker_server(agent: RankProcess, reason: str) -> _Threads | str:
    """What PyTorch's own server says where py-spy says nothing, for that `reason`."""
    try:
        text = ask_worker_server(
            agent.file("sock"), "dump_traceback", deadline_seconds=ANSWER_SECONDS, owner=agent.owner
        )
    except NoAnswer as no_answer:
        return f"{reason}; worker server: {no_answer}"
    threads = from_faulthandler(text.decode(errors="replace"))
    return ("worker server", threads) if threads else reason


def _uses(threads: Mapping[Target, _Threads | str]) -> dict[Target, dict[int, ThreadUsage]]:
    """What the threads beside the main one have used, of each rank whose threads are known."""
    return {target: uses_of(target.pid, found[1]) for target, found in threads.items() if not isinstance(found, str)}


def _with_native(stacks: Mapping[Target, Stacks | str]) -> dict[Target, Stacks | str]:
    """The same stacks with the C and C++ functions above the thread that holds the GIL, where it is never free."""
    stuck = [target for target, found in stacks.items() if not isinstance(found, str) and found.gil_never_free]
    read = py_spy_each([target.pid for target in stuck], native=True)
    complete = dict(stacks)
    for target in stuck:
        threads, found = read[target.pid], stacks[target]
        if not isinstance(threads, NoStacks) and not isinstance(found, str):
            native = {thread.os_id: thread.native for thread in threads}
            complete[target] = replace(
                found,
                threads=tuple(
                    replace(thread, native=native.get(thread.os_id, ())) if thread.holds_gil else thread
                    for thread in found.threads
                ),
            )
    return complete


def _with_worker_stacks(states: Mapping[Target, ProcessState]) -> dict[Target, ProcessState]:
    """The same states with the stacks of data loader workers; a child that is no such worker turns out to be none."""
    workers = [
        child
        for state in states.values()
        for child in [child for child in state.children if child.kind == "data loader worker"][:MOST_WORKERS]
    ]
    read = py_spy_each(
        [child.pid for child in workers], stopped={child.pid for child in workers if child.state in "Tt"}
    )
    mains = {
        pid: next((thread.frames for thread in threads if thread.main), ())
        for pid, threads in read.items()
        if not isinstance(threads, NoStacks)
    }
    return {
        target: replace(
            state, children=tuple(replace(child, stack=mains.get(child.pid, ())) for child in state.children)
        )
        for target, state in states.items()
    }

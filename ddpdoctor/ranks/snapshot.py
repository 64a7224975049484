"""Everything that can be learnt of running ranks within seconds, in parallel, whatever state they are in."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ddpdoctor.agent.inside.recorder_socket import MISSING_GRADIENTS, THREAD
from ddpdoctor.agent.inside.schema.missing_gradients import MissingGradients as MissingGradientsAnswer
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import Missing, RankFacts
from ddpdoctor.evidence.frames import Frame, is_users
from ddpdoctor.evidence.process import ProcessState
from ddpdoctor.evidence.ranks import MissingGradients
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.stacks import Stacks, Thread
from ddpdoctor.host import connections, processes
from ddpdoctor.logs.faulthandler_stacks import from_faulthandler
from ddpdoctor.ranks.agent_client import NoAnswer, ask_agent, ask_worker_server
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.ranks.fr_dump_files import decode
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.ranks.json_records import read_json
from ddpdoctor.ranks.stacks import NoStacks, py_spy_each
from ddpdoctor.ranks.threads_at_work import Use, at_work, uses_of

LOOK_SECONDS = 1.0  # from the first to the last look: a rank that computes moves, and uses a CPU, in far less
LOOKS = 3  # at the stacks of a rank: two may fall on one line of a loop by chance
ANSWER_SECONDS = 2.5  # a rank whose interpreter runs answers in milliseconds, on an overloaded machine in a second
ENDED = "ZX"  # a zombie shows nothing any more; its launcher has not collected it yet
POLL_SECONDS = 0.2
MOST_AT_ONCE = 64
MOST_WORKERS = 8  # loader workers whose stacks are read, a rank

_Threads: TypeAlias = tuple[str, tuple[Thread, ...]]
"""Who told of the threads, and the threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A running rank. `agent` is None where the job was started without ddpdoctor."""

    rank: int
    pid: int
    agent: RankProcess | None = None


def examine(
    targets: Sequence[Target], *, host: str, seconds: float = LOOK_SECONDS
) -> tuple[tuple[RankFacts, ...], tuple[Missing, ...]]:
    """What each rank is doing, seen several times within `seconds`, with the reasons for what could not be learnt."""
    facts, missing = [], []
    for target, look in zip(targets, _looks(targets, seconds), strict=True):
        found: list[Any] = []
        for kind, said in ((Stacks, look.stacks), (FlightRecord, _record(look.dump)), (ProcessState, look.process)):
            if isinstance(said, str):
                missing.append(Missing(kind=kind.__name__, rank=target.rank, reason=said))
            else:
                found.append(said)
        found += _gradients(look.dump)
        facts.append(RankFacts(rank=target.rank, host=host, facts=tuple(found)))
    return tuple(facts), tuple(missing)


@dataclass(frozen=True, slots=True)
class _Look:
    """What one rank showed; a text is the reason why it did not."""

    stacks: Stacks | str
    dump: _Dump | str
    process: ProcessState | str


@dataclass(frozen=True, slots=True)
class _Dump:
    """The raw flight recorder. `interpreter_answered` is False where only the C++ server did."""

    data: bytes
    taken_at: float
    interpreter_answered: bool
    missing_gradients: bytes = b""


def _looks(targets: Sequence[Target], seconds: float) -> list[_Look]:
    """What each target showed. All are looked at together, as a program per rank and look would cost many times as much."""
    before = {target.pid: processes.sample(target.pid) for target in targets}
    alive = [target for target in targets if (sample := before[target.pid]) is not None and sample.state not in ENDED]
    waited_for = {target.pid: sockets for target in alive if (sockets := connections.waited_for(target.pid))}
    moved_before = connections.moved_bytes() if waited_for else {}
    # py-spy must not wait for a process that is stopped to stop
    stopped = {target.pid for target in alive if (sample := before[target.pid]) and sample.state in "TtD"}
    with ThreadPoolExecutor(max_workers=max(1, min(MOST_AT_ONCE, len(alive)))) as pool:
        began = time.monotonic()
        looks = [_stacks(alive, stopped, pool)]
        used_before, used_at = _uses(looks[0]), time.monotonic()
        answers = pool.map(lambda target: _dump(target.agent, stopped=target.pid in stopped), alive)
        dumps = dict(zip(alive, answers, strict=True))
        again = [target for target in alive if not isinstance(looks[0][target], str)]
        wakes: dict[int, int] = {}
        for number in range(1, LOOKS):
            asleep = _sleeps(again)
            time.sleep(max(0.0, number * seconds / (LOOKS - 1) - (time.monotonic() - began)))
            for pid, since in _wakes(asleep).items():
                wakes[pid] = wakes.get(pid, 0) + since
            looks.append(_stacks(again, stopped, pool))
    used_after, used_for = _uses(looks[0]), time.monotonic() - used_at
    after = {target.pid: processes.sample(target.pid) for target in alive}
    moved = connections.moved_between(waited_for, moved_before, connections.moved_bytes() if waited_for else {})
    states = {}
    for target in alive:
        earlier, later = before[target.pid], after[target.pid]
        if earlier is not None and later is not None and later.state not in ENDED:
            states[target] = processes.state_between(
                target.pid,
                earlier,
                later,
                wakes=wakes.get(target.pid),
                sockets=waited_for.get(target.pid, ()),
                connection_bytes=moved.get(target.pid),
            )
    states = _with_worker_stacks(states)
    told = {target: [look[target] for look in looks if target in look] for target in alive}
    stacks = _with_native({target: _together(target, told[target], dumps[target]) for target in alive})
    for target, before_of in used_before.items():
        found, threads = stacks[target], [look[1] for look in told[target] if not isinstance(look, str)]
        if not isinstance(found, str) and at_work(threads, before_of, used_after[target], used_for):
            stacks[target] = replace(found, others_work=True)
    gone = {target: f"process {target.pid} has ended" for target in targets}
    return [
        _Look(
            stacks=stacks.get(target, gone[target]),
            dump=dumps.get(target, gone[target]),
            process=states.get(target, gone[target]),
        )
        for target in targets
    ]


def _dump(agent: RankProcess | None, *, stopped: bool) -> _Dump | str:
    """The flight recorder, with stacks where the interpreter answers and without where only C++ does."""
    if agent is None:
        return "the job was started without ddpdoctor, and it wrote no dump of its own"
    if stopped:
        return "the process is stopped and does not answer"
    try:
        data, taken_at = (
            ask_agent(agent.file("ask"), deadline_seconds=ANSWER_SECONDS, owner=agent.owner),
            time.time(),
        )
        return _Dump(data, taken_at, True, _missing_gradients(agent))
    except NoAnswer as no_answer:
        reason = str(no_answer)
    try:
        data = ask_worker_server(
            agent.file("sock"), "fr_trace_json", deadline_seconds=ANSWER_SECONDS, owner=agent.owner
        )
        return _Dump(data, time.time(), False)
    except NoAnswer as no_answer:
        return f"the agent: {reason}; the worker server: {no_answer}"


def _missing_gradients(agent: RankProcess) -> bytes:
    """What the agent says of parameters without a gradient; nothing where it is of a version that is not asked for them."""
    try:
        return ask_agent(agent.file("ask"), MISSING_GRADIENTS, deadline_seconds=ANSWER_SECONDS, owner=agent.owner)
    except NoAnswer:
        return b""


def _gradients(dump: _Dump | str) -> tuple[MissingGradients, ...]:
    found = read_json(MissingGradientsAnswer, dump.missing_gradients) if not isinstance(dump, str) else None
    return (MissingGradients(names=found.names, total=found.total),) if found is not None else ()


def _record(dump: _Dump | str) -> FlightRecord | str:
    if isinstance(dump, str):
        return dump
    try:
        return record_of(decode(dump.data), taken_at=dump.taken_at)
    except UndecidedError as error:
        return error.message


def _stacks(
    targets: Sequence[Target], stopped: Collection[int], pool: ThreadPoolExecutor
) -> dict[Target, _Threads | str]:
    """By target, the source and the threads, or why there are none."""
    found = py_spy_each([target.pid for target in targets], stopped=stopped)

    def told(target: Target) -> _Threads | str:
        threads = found[target.pid]
        if not isinstance(threads, NoStacks):
            return "py-spy", threads
        if target.agent is None or target.pid in stopped:
            return str(threads)
        return _from_worker_server(target.agent, str(threads))

    return dict(zip(targets, pool.map(told, targets), strict=True))


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


def _together(target: Target, looks: Sequence[_Threads | str], dump: _Dump | str) -> Stacks | str:
    """Several looks as one: whether the main thread moved, at which lines it was, and whether the GIL was ever free."""
    if isinstance(looks[0], str):
        return looks[0]
    each = [Stacks(source=look[0], threads=look[1]) for look in looks if not isinstance(look, str)]
    first, last = each[0], each[-1]
    mains = [stacks.main for stacks in each]
    seen = dict.fromkeys(tuple(frame for frame in main.frames if is_users(frame.file)) for main in mains if main)
    if len(each) == 1:
        return replace(first, seen=tuple(seen))
    moved = None if None in mains else len({main.frames for main in mains if main is not None}) > 1
    last = replace(last, threads=_idle_once(each, last.threads))
    holder, still = first.gil_holder, last.gil_holder
    silent = target.agent is not None and not (isinstance(dump, _Dump) and dump.interpreter_answered)
    never_free = (
        holder is not None
        and still is not None
        and holder.name != THREAD  # it is our own question that this rank is busy with
        and len({(one.os_id, one.frames) for stacks in each if (one := stacks.gil_holder) is not None}) == 1
        and not _others_moved(each, holder)
        and (silent or (target.agent is None and not still.active))
    )
    return replace(last, moved=moved, gil_never_free=never_free, seen=tuple(seen))


def _others_moved(each: Sequence[Stacks], holder: Thread) -> bool:
    """Whether another thread than this one was at several lines: it cannot move without the GIL."""
    ways: dict[int, set[tuple[Frame, ...]]] = {}
    for thread in (thread for stacks in each for thread in stacks.threads):
        if thread.os_id is not None and thread.os_id != holder.os_id:
            ways.setdefault(thread.os_id, set()).add(thread.frames)
    return any(len(seen) > 1 for seen in ways.values())


def _uses(look: Mapping[Target, _Threads | str]) -> dict[Target, dict[int, Use]]:
    """What the threads beside the main one have used, of each rank whose threads are known."""
    return {target: uses_of(target.pid, told[1]) for target, told in look.items() if not isinstance(told, str)}


def _idle_once(each: Sequence[Stacks], threads: Sequence[Thread]) -> tuple[Thread, ...]:
    """The threads, none of them active that was idle at the same line in one of the looks.

    py-spy interrupts a thread that sleeps, and on a busy machine it is still about to sleep again at the next look.
    """
    idle = {(thread.os_id, thread.frames) for stacks in each for thread in stacks.threads if not thread.active}
    return tuple(
        replace(thread, active=thread.active and (thread.os_id, thread.frames) not in idle) for thread in threads
    )


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


def wakes_within(targets: Sequence[Target], seconds: float) -> dict[int, int]:
    """By process, how often its main thread woke from a sleep within `seconds`, or in less where all of them have woken.

    Nobody interrupts the threads meanwhile. Those that did not sleep in the beginning are left out, and those that handle the
    signal of a timer, which wakes a thread that makes no progress.
    """
    asleep, until = _sleeps(targets), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not all(_wakes(asleep).values()):
        time.sleep(min(left, POLL_SECONDS))
    return _wakes(asleep)


def bytes_within(waited_for: Mapping[int, Collection[int]], seconds: float) -> dict[int, int]:
    """By process, the bytes that its connections moved within `seconds`, or in less where all of them moved some."""
    if not waited_for:
        return {}
    before, until = connections.moved_bytes(), time.monotonic() + seconds
    while True:
        moved = connections.moved_between(waited_for, before, connections.moved_bytes())
        if all(moved.values()) or (left := until - time.monotonic()) <= 0:
            return moved
        time.sleep(min(left, POLL_SECONDS))


def _sleeps(targets: Sequence[Target]) -> dict[int, int]:
    """By process, how often its main thread went to sleep, of those whose main thread sleeps now and that no timer wakes."""
    counts = {
        target.pid: processes.sleeps(target.pid)
        for target in targets
        if not processes.may_be_woken_by_a_timer(target.pid)
    }
    return {pid: count for pid, count in counts.items() if count is not None}


def _wakes(asleep: Mapping[int, int]) -> dict[int, int]:
    """By process, how often its main thread woke since `_sleeps` counted; one that is awake now has woken once more."""
    now = {pid: processes.sleeps(pid) for pid in asleep}
    return {pid: 1 if (count := now[pid]) is None else count - before for pid, before in asleep.items()}


def targets_of(agents: Iterable[RankProcess]) -> tuple[Target, ...]:
    """The ranks that still run."""
    return tuple(
        Target(rank=agent.rank, pid=agent.pid, agent=agent) for agent in agents if processes.is_alive(agent.pid)
    )

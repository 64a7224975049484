"""Everything that can be learnt of running ranks within seconds, in parallel, whatever state they are in."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from ddpdoctor.agent.inside.recorder_socket import THREAD
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import Missing, RankFacts
from ddpdoctor.evidence.frames import is_users
from ddpdoctor.evidence.process import ProcessState
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.stacks import Stacks, Thread
from ddpdoctor.host import processes
from ddpdoctor.logs.faulthandler_stacks import from_faulthandler
from ddpdoctor.ranks.agent_client import NoAnswer, ask_agent, ask_worker_server
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.ranks.fr_dump_files import decode
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.ranks.stacks import NoStacks, py_spy

LOOK_SECONDS = 1.0  # from the first to the last look: a rank that computes moves, and uses a CPU, in far less
LOOKS = 3  # at the stacks of a rank: two may fall on one line of a loop by chance
ANSWER_SECONDS = 2.5  # a rank whose interpreter runs answers in milliseconds, on an overloaded machine in a second
ENDED = "ZX"  # a zombie shows nothing any more; its launcher has not collected it yet
MOST_AT_ONCE = 64
MOST_WORKERS = 8  # loader workers whose stacks are read, a rank


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
    with ThreadPoolExecutor(max_workers=max(1, min(MOST_AT_ONCE, len(targets)))) as pool:
        looks = list(pool.map(lambda target: _look(target, seconds), targets))
    facts, missing = [], []
    for target, look in zip(targets, looks, strict=True):
        found: list[Any] = []
        for kind, said in ((Stacks, look.stacks), (FlightRecord, _record(look.dump)), (ProcessState, look.process)):
            if isinstance(said, str):
                missing.append(Missing(kind=kind.__name__, rank=target.rank, reason=said))
            else:
                found.append(said)
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


def _look(target: Target, seconds: float) -> _Look:
    before = processes.sample(target.pid)
    if before is None or before.state in ENDED:
        gone = f"process {target.pid} has ended"
        return _Look(gone, gone, gone)
    stopped = before.state in "TtD"  # py-spy must not wait for it to stop
    began = time.monotonic()
    first = _stacks(target, stopped=stopped)
    dump = _dump(target.agent, stopped=stopped)
    later = []
    for number in range(1, LOOKS):
        time.sleep(max(0.0, number * seconds / (LOOKS - 1) - (time.monotonic() - began)))
        if not isinstance(first, str):
            later.append(_stacks(target, stopped=stopped))
    after = processes.sample(target.pid)
    return _Look(
        stacks=first if isinstance(first, str) else _together(target, [first, *later], dump),
        dump=dump,
        process=(
            f"process {target.pid} has ended"
            if after is None or after.state in ENDED
            else _with_worker_stacks(processes.state_between(target.pid, before, after))
        ),
    )


def _dump(agent: RankProcess | None, *, stopped: bool) -> _Dump | str:
    """The flight recorder, with stacks where the interpreter answers and without where only C++ does."""
    if agent is None:
        return "the job was started without ddpdoctor, and it wrote no dump of its own"
    if stopped:
        return "the process is stopped and does not answer"
    try:
        return _Dump(
            ask_agent(agent.file("ask"), deadline_seconds=ANSWER_SECONDS, owner=agent.owner), time.time(), True
        )
    except NoAnswer as no_answer:
        reason = str(no_answer)
    try:
        data = ask_worker_server(
            agent.file("sock"), "fr_trace_json", deadline_seconds=ANSWER_SECONDS, owner=agent.owner
        )
        return _Dump(data, time.time(), False)
    except NoAnswer as no_answer:
        return f"the agent: {reason}; the worker server: {no_answer}"


def _record(dump: _Dump | str) -> FlightRecord | str:
    if isinstance(dump, str):
        return dump
    try:
        return record_of(decode(dump.data), taken_at=dump.taken_at)
    except UndecidedError as error:
        return error.message


def _stacks(target: Target, *, stopped: bool) -> tuple[str, tuple[Thread, ...]] | str:
    """The source and the threads, or why there are none."""
    try:
        return "py-spy", py_spy(target.pid, stopped=stopped)
    except NoStacks as no_stacks:
        reason = str(no_stacks)
    if target.agent is None or stopped:
        return reason
    try:
        text = ask_worker_server(
            target.agent.file("sock"), "dump_traceback", deadline_seconds=ANSWER_SECONDS, owner=target.agent.owner
        )
    except NoAnswer as no_answer:
        return f"{reason}; worker server: {no_answer}"
    threads = from_faulthandler(text.decode(errors="replace"))
    return ("worker server", threads) if threads else reason


def _together(target: Target, looks: Sequence[tuple[str, tuple[Thread, ...]] | str], dump: _Dump | str) -> Stacks:
    """Several looks as one: whether the main thread moved, at which lines it was, and whether the GIL was ever free."""
    each = [Stacks(source=look[0], threads=look[1]) for look in looks if not isinstance(look, str)]
    first, last = each[0], each[-1]
    mains = [stacks.main for stacks in each]
    seen = dict.fromkeys(tuple(frame for frame in main.frames if is_users(frame.file)) for main in mains if main)
    if len(each) == 1:
        return replace(first, seen=tuple(seen))
    moved = None if None in mains else len({main.frames for main in mains if main is not None}) > 1
    holder, still = first.gil_holder, last.gil_holder
    silent = target.agent is not None and not (isinstance(dump, _Dump) and dump.interpreter_answered)
    never_free = (
        holder is not None
        and still is not None
        and holder.name != THREAD  # it is our own question that this rank is busy with
        and (holder.os_id, holder.frames) == (still.os_id, still.frames)
        and (silent or (target.agent is None and not still.active))
    )
    if never_free:
        last = _with_native(target, last)
    return replace(
        last, threads=_idle_once(each, last.threads), moved=moved, gil_never_free=never_free, seen=tuple(seen)
    )


def _idle_once(each: Sequence[Stacks], threads: Sequence[Thread]) -> tuple[Thread, ...]:
    """The threads, none of them active that was idle at the same line in one of the looks.

    py-spy interrupts a thread that sleeps, and on a busy machine it is still about to sleep again at the next look.
    """
    idle = {(thread.os_id, thread.frames) for stacks in each for thread in stacks.threads if not thread.active}
    return tuple(
        replace(thread, active=thread.active and (thread.os_id, thread.frames) not in idle) for thread in threads
    )


def _with_native(target: Target, stacks: Stacks) -> Stacks:
    """The same stacks with the C and C++ functions above the thread that holds the GIL."""
    try:
        native = {thread.os_id: thread.native for thread in py_spy(target.pid, native=True)}
    except NoStacks:
        return stacks
    return replace(
        stacks,
        threads=tuple(
            replace(thread, native=native.get(thread.os_id, ())) if thread.holds_gil else thread
            for thread in stacks.threads
        ),
    )


def _with_worker_stacks(state: ProcessState) -> ProcessState:
    """The same state with the stacks of its data loader workers; a child that is no such worker turns out to be none."""
    workers = [child for child in state.children if child.kind == "data loader worker"][:MOST_WORKERS]
    stacks: dict[int, tuple[Any, ...]] = {}
    for child in workers:
        try:
            main = next((thread for thread in py_spy(child.pid, stopped=child.state in "Tt") if thread.main), None)
        except NoStacks:
            continue
        stacks[child.pid] = main.frames if main is not None else ()
    children = (replace(child, stack=stacks.get(child.pid, ())) for child in state.children)
    return replace(state, children=tuple(children))


def targets_of(agents: Iterable[RankProcess]) -> tuple[Target, ...]:
    """The ranks that still run."""
    return tuple(
        Target(rank=agent.rank, pid=agent.pid, agent=agent) for agent in agents if processes.is_alive(agent.pid)
    )

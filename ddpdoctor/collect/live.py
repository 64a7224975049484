"""Everything that can be learnt of running ranks within seconds, in parallel, whatever state they are in."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from ddpdoctor.agent.inside.answers import THREAD
from ddpdoctor.collect import processes
from ddpdoctor.collect.agents import RankProcess
from ddpdoctor.collect.dumps import decode
from ddpdoctor.collect.faulthandler_text import from_faulthandler
from ddpdoctor.collect.rank_server import NoAnswer, ask_agent, ask_worker_server
from ddpdoctor.collect.recorder import record_of
from ddpdoctor.collect.stacks import NoStacks, py_spy
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import Missing, RankFacts
from ddpdoctor.evidence.process import ProcessState
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.stacks import Stacks, Thread

LOOK_SECONDS = 1.0  # between two looks: a rank that computes moves, and uses a CPU, in far less
ANSWER_SECONDS = 1.5  # a rank whose interpreter runs answers in milliseconds, on a loaded machine in tenths of a second
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
    """What each rank is doing, seen twice `seconds` apart, with the reasons for what could not be learnt."""
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
    time.sleep(max(0.0, seconds - (time.monotonic() - began)))
    second = first if isinstance(first, str) else _stacks(target, stopped=stopped)
    after = processes.sample(target.pid)
    return _Look(
        stacks=first if isinstance(first, str) else _together(target, first, second, dump),
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
        return "the job was started without ddpdoctor: only its own dumps would tell"
    if stopped:
        return "the process is stopped and answers nothing"
    try:
        return _Dump(ask_agent(agent.file("ask"), deadline_seconds=ANSWER_SECONDS), time.time(), True)
    except NoAnswer as no_answer:
        reason = str(no_answer)
    try:
        data = ask_worker_server(agent.file("sock"), "fr_trace_json", deadline_seconds=ANSWER_SECONDS)
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
        text = ask_worker_server(target.agent.file("sock"), "dump_traceback", deadline_seconds=ANSWER_SECONDS)
    except NoAnswer as no_answer:
        return f"{reason}; worker server: {no_answer}"
    threads = from_faulthandler(text.decode(errors="replace"))
    return ("worker server", threads) if threads else reason


def _together(
    target: Target,
    first: tuple[str, tuple[Thread, ...]],
    second: tuple[str, tuple[Thread, ...]] | str,
    dump: _Dump | str,
) -> Stacks:
    """Two looks as one: whether the main thread moved, and whether the GIL was ever free."""
    source, threads = first
    stacks = Stacks(source=source, threads=threads)
    if isinstance(second, str):
        return stacks
    later = Stacks(source=second[0], threads=second[1])
    before, after = stacks.main, later.main
    moved = None if before is None or after is None else before.frames != after.frames
    holder, still = stacks.gil_holder, later.gil_holder
    silent = target.agent is not None and not (isinstance(dump, _Dump) and dump.interpreter_answered)
    never_free = (
        holder is not None
        and still is not None
        and holder.name != THREAD  # it is our own question that this rank is busy with
        and (holder.os_id, holder.frames) == (still.os_id, still.frames)
        and (silent or (target.agent is None and not still.active))
    )
    if never_free:
        later = _with_native(target, later)
    return replace(later, moved=moved, gil_never_free=never_free)


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

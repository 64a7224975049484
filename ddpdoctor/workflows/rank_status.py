"""How each rank of a running job is getting on, sampled again and again: what `top` shows and `watch --metrics` writes.

A rank with our agent is read from its files, which costs it nothing. Stacks are read without pausing the rank, of a few ranks
a time, and only where the files do not tell: the job was started without us, or it makes no progress.
"""

from __future__ import annotations

import itertools
import os
import resource
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from statistics import median

import psutil

from ddpdoctor.agent.inside.schema.call_ring import NO_SEQ, Batch, Collective, Forward, PointToPoint
from ddpdoctor.analysis.hangs.ranks_to_look_at import PROCESS_STATES, QUIET_SECONDS
from ddpdoctor.analysis.hangs.stack_patterns import WAITS_FOR_PEERS, Activity, activity_in_stack
from ddpdoctor.evidence.frames import Frame, users_frame
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.evidence.rank_status import RankStatus
from ddpdoctor.evidence.stacks import Thread
from ddpdoctor.host import gpus
from ddpdoctor.host.host_access import HostAccess
from ddpdoctor.ranks.call_log_reader import CallLogReader
from ddpdoctor.ranks.stacks import NoStacks, py_spy_each
from ddpdoctor.ranks.target import Target

RECORDS = 64  # of a rank's call ring that are read at a time: a few steps
LATENESS_CALLS = 20
STACKS_AT_ONCE = 4  # py-spy takes 0.05 s of a CPU for each
STACKS_SECONDS_SHARE = 0.1  # of the time of who asks: a rank that does not answer py-spy holds it up for 4 s
STACKS_SHARE = 0.005  # of the CPUs of this host that reading stacks may take, after the first look at each rank
RATE_SECONDS = 15.0  # of samples from which the rate of steps is taken
MOST_FRAMES = 12  # of a stack that are kept in a row
NVIDIA_DEVICE = Path("/dev/nvidia0")  # without it no GPU is asked for
GPU_SECONDS = 10.0  # between two looks at the GPUs: the driver is asked in a process of its own
COMPUTING = "computing"
AT_REST = 0.03  # of a CPU: a thread that waits for time to pass or for a device uses less, one that works far more
ENDED = "ended"  # the state of a process that is gone
_WORDS = {
    Activity.COMPUTING: COMPUTING,
    Activity.COLLECTIVE: "in a collective",
    Activity.DATA_LOADER: "data loader",
    Activity.RENDEZVOUS: "joining",
}


@dataclass(slots=True)
class StatusReader:
    """Samples the ranks of a job on this host; keeps what is needed for rates."""

    host: str = field(default_factory=socket.gethostname)
    """The name that rows give this host."""
    _before: dict[int, tuple[float, float]] = field(default_factory=dict)
    _steps: dict[int, deque[tuple[float, int]]] = field(default_factory=dict)
    _signs: dict[int, tuple[object, float]] = field(default_factory=dict)
    _stacks: dict[int, tuple[Frame, ...]] = field(default_factory=dict)
    _read_before: set[int] = field(default_factory=set)
    _turn: int = 0
    _next_stacks: float = 0.0
    _not_before: float = 0.0
    _gpus: Gpus | None = None
    _next_gpus: float = 0.0

    def sample(self, targets: Sequence[Target], *, stacks: bool = True) -> tuple[RankStatus, ...]:
        """Every rank as it is now, in order of rank; `stacks` False asks for none, whatever is not known then."""
        now = time.monotonic()
        logs = {target.rank: target.agent.call_log(most=RECORDS) for target in targets if target.agent is not None}
        late = lateness(logs)
        if stacks:
            self._look_at_stacks(targets, now)
        self._look_at_gpus(now)
        return tuple(self._status(target, logs.get(target.rank), late.get(target.rank), now) for target in targets)

    def _status(self, target: Target, log: CallLogReader | None, late: float | None, now: float) -> RankStatus:
        try:
            process = psutil.Process(target.pid)
            with process.oneshot():
                times, memory = process.cpu_times(), process.memory_info().rss
                letter = Path(f"/proc/{target.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (psutil.Error, OSError):
            return RankStatus(rank=target.rank, host=self.host, pid=target.pid, state=ENDED)
        used = times.user + times.system
        before = self._before.get(target.pid)
        self._before[target.pid] = (now, used)
        cpu = (used - before[1]) / (now - before[0]) if before is not None and now > before[0] else None
        state, line, waits = self._doing(target, log, now)
        if state == COMPUTING and self._stacks.get(target.rank) and letter == "S" and cpu is not None and cpu < AT_REST:
            state = "sleeping"
        steps, pace = self._pace(target, now)
        return RankStatus(
            rank=target.rank,
            host=self.host,
            pid=target.pid,
            state=PROCESS_STATES.get(letter, state),
            line=line,
            steps=steps,
            steps_per_second=pace,
            late_seconds=late,
            cpu_share=cpu,
            memory_bytes=memory,
            gpu=self._gpu(target.pid),
            idle_seconds=self._idle(target, now),
            waits_for_peers=waits and letter not in PROCESS_STATES,
            stack=frames_in_words(self._stacks.get(target.rank, ())),
        )

    def _doing(self, target: Target, log: CallLogReader | None, now: float) -> tuple[str, str, bool]:
        """The state in a few words, the user's line, and whether the rank waits for its peers."""
        last = log.records[-1] if log is not None and log.records else None
        match last:
            case Collective(returned_ns=0) | PointToPoint(returned_ns=0):
                assert log is not None
                number = f" #{last.seq}" if isinstance(last, Collective) and last.seq != NO_SEQ else ""
                return f"{log.texts.op(last.op)}{number}", _short(log.texts.line(last.place)), True
            case Batch(drawn_ns=0):
                return "data loader", "", False
        if self._stacks.get(target.rank):
            frames = self._stacks[target.rank]
            found, place = activity_in_stack(frames), users_frame(frames)
            activity = found[0] if found is not None else Activity.COMPUTING
            return _WORDS.get(activity, activity.value), _short(place), activity in WAITS_FOR_PEERS
        if last is None:
            return ("starting" if target.agent is not None else "unknown"), "", False
        if self._wants_stack(target, now):  # collectives of DDP itself are in no record: only a stack would tell
            return "unknown", "", False
        assert log is not None
        place = getattr(last, "place", None)
        return COMPUTING, _short(log.texts.line(place)) if place is not None else "", False

    def _pace(self, target: Target, now: float) -> tuple[int | None, float | None]:
        if target.agent is None:
            return None, None
        steps = target.agent.header.steps
        samples = self._steps.setdefault(target.pid, deque())
        samples.append((now, steps))
        while len(samples) > 2 and samples[1][0] <= now - RATE_SECONDS:
            samples.popleft()
        (began, first), (ended, last) = samples[0], samples[-1]
        return steps, (last - first) / (ended - began) if ended > began else None

    def _idle(self, target: Target, now: float) -> float | None:
        """Seconds since a counter of the training changed; None where nobody counts."""
        if target.agent is None:
            return None
        header = target.agent.header
        signs = header.written_in_training, header.returned_in_training, header.forwards, header.steps
        known = self._signs.get(target.pid)
        if known is None:
            began = min(now, now - (time.time() - header.last_ns / 1e9)) if header.last_ns else now
            self._signs[target.pid] = known = (signs, began)
        elif known[0] != signs:
            self._signs[target.pid] = known = (signs, now)
        return now - known[1]

    def _look_at_stacks(self, targets: Sequence[Target], now: float) -> None:
        """Read the stacks of a few ranks, in turns: where there is no agent, or no progress."""
        wanted = [target for target in targets if self._wants_stack(target, now)]
        for target in targets:
            if target not in wanted:
                self._stacks.pop(target.rank, None)
        if not wanted:
            return
        first = {target.rank for target in wanted} - self._read_before
        if now < self._next_stacks and (not first or now < self._not_before):
            return
        self._read_before |= first
        began, before = time.monotonic(), _seconds_of_children()
        unread = [target for target in wanted if target.rank not in self._stacks and target.rank not in first]
        turn = unread[:STACKS_AT_ONCE]
        if not turn:
            turn = list(itertools.islice(itertools.cycle(wanted), self._turn, self._turn + STACKS_AT_ONCE))
            self._turn = (self._turn + STACKS_AT_ONCE) % len(wanted)
        chosen = {target.rank: target for target in (*(each for each in wanted if each.rank in first), *turn)}
        for target, frames in main_stacks([*chosen.values()]).items():
            self._stacks[target.rank] = frames if frames is not None else ()
        spent = _seconds_of_children() - before
        ended = time.monotonic()
        self._not_before = ended + (ended - began) / STACKS_SECONDS_SHARE
        self._next_stacks = max(self._not_before, now + spent / (STACKS_SHARE * (os.cpu_count() or 1)))

    def _wants_stack(self, target: Target, now: float) -> bool:
        return target.agent is None or (self._idle(target, now) or 0.0) > QUIET_SECONDS

    def _look_at_gpus(self, now: float) -> None:
        if now < self._next_gpus or not NVIDIA_DEVICE.exists():
            return
        self._next_gpus = now + GPU_SECONDS
        self._gpus = next((fact for fact in gpus.collect(HostAccess()) if isinstance(fact, Gpus)), None)

    def _gpu(self, pid: int) -> str:
        """`87% 14G 61C` of the GPU on which the process computes, without what the driver does not tell; else empty."""
        for gpu in self._gpus.gpus if self._gpus is not None else ():
            if any(process.pid == pid for process in gpu.processes or ()):
                used = None if gpu.memory_used_bytes is None else round(gpu.memory_used_bytes / 2**30)
                shown = ((gpu.use_percent, "%"), (used, "G"), (gpu.temperature_celsius, "C"))
                return " ".join(f"{value}{unit}" for value, unit in shown if value is not None)
        return ""


def frames_in_words(frames: Sequence[Frame]) -> tuple[str, ...]:
    """The innermost frames, as `train.py:61 in fetch`."""
    return tuple(f"{frame.file}:{frame.line} in {frame.function}" for frame in frames[:MOST_FRAMES])


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main_stacks(targets: Sequence[Target]) -> dict[Target, tuple[Frame, ...] | None]:
    """The frames of each rank's main thread, innermost first, read without pausing it; None where they cannot be read."""
    pids = [target.pid for target in targets]
    read = py_spy_each(pids, stopped=pids)
    return {target: _main_frames(read[target.pid]) for target in targets}


def _main_frames(threads: tuple[Thread, ...] | NoStacks) -> tuple[Frame, ...] | None:
    if isinstance(threads, NoStacks):
        return None
    return next((thread.frames for thread in threads if thread.main), None)


def lateness(logs: Mapping[int, CallLogReader]) -> dict[int, float]:
    """By how many seconds each rank comes after the first rank of its host, as a median of the last common calls.

    Calls are the collectives of the job's own code or, where it has none, as with DDP alone, its training forwards.
    """
    for kind in (Collective, Forward):
        began: dict[object, dict[int, int]] = {}
        for rank, log in logs.items():
            for record in log.records:
                if isinstance(record, kind) and (number := _number(record, log)) is not None:
                    began.setdefault(number, {})[rank] = record.began_ns
        common = [times for _, times in sorted(began.items()) if len(times) == len(logs) > 1][-LATENESS_CALLS:]
        if common:
            return {rank: median((times[rank] - min(times.values())) / 1e9 for times in common) for rank in logs}
    return {}


def _number(record: Collective | Forward, log: CallLogReader) -> tuple[int, str] | None:
    """What the same call has on every rank; None where nothing numbers it."""
    if isinstance(record, Forward):
        return record.number, ""
    return (record.seq, log.texts.op(record.op)) if record.seq != NO_SEQ else None


def _short(place: Frame | None) -> str:
    return f"{PurePath(place.file).name}:{place.line}" if place is not None else ""

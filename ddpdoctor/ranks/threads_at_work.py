"""Whether a thread beside a rank's main thread is at work: it may do what the main thread waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.analysis.hangs.movement import MOVED_BYTES
from ddpdoctor.evidence.frames import Frame, is_users, runs_users_code
from ddpdoctor.evidence.stacks import Thread
from ddpdoctor.host.system_calls import read_or_nothing
from ddpdoctor.whole_numbers import whole_number

WORK_SHARE = 0.1  # of the time, on a CPU or ready for one: a thread that sleeps and looks at something takes far less
NANOSECONDS = 1e9


@dataclass(frozen=True, slots=True)
class ThreadUsage:
    """What a thread has used since it began."""

    seconds: float
    """On a CPU, or ready for one on a machine that is too busy."""
    io_bytes: int
    """Read and written, from files or from pipes."""


def uses_of(pid: int, threads: Iterable[Thread]) -> dict[int, ThreadUsage]:
    """By the kernel's number, what each of the threads that may be at work has used, where /proc shows it."""
    found = {one.os_id: _use(Path(f"/proc/{pid}/task/{one.os_id}")) for one in threads if _may_work(one)}
    return {number: use for number, use in found.items() if number is not None and use is not None}


def at_work(
    looks: Sequence[Sequence[Thread]],
    before: Mapping[int, ThreadUsage],
    after: Mapping[int, ThreadUsage],
    seconds: float,
) -> bool:
    """Whether a thread was at several of its lines in these looks, or used a CPU or moved data in the `seconds` between."""
    stacks: dict[int, set[tuple[Frame, ...]]] = {}
    for threads in looks:
        for one in threads:
            if one.os_id is not None and _may_work(one):
                stacks.setdefault(one.os_id, set()).add(tuple(frame for frame in one.frames if is_users(frame.file)))
    return any(
        len(seen) > 1 or (number in before and number in after and _worked(before[number], after[number], seconds))
        for number, seen in stacks.items()
    )


def _worked(before: ThreadUsage, after: ThreadUsage, seconds: float) -> bool:
    used, moved = after.seconds - before.seconds, after.io_bytes - before.io_bytes
    return seconds > 0 and (used / seconds >= WORK_SHARE or moved / seconds >= MOVED_BYTES)


def _may_work(thread: Thread) -> bool:
    """Whether it is a thread of the user's own: the services of libraries are busy whatever becomes of the rank."""
    return not thread.main and runs_users_code(thread.frames)


def _use(task: Path) -> ThreadUsage | None:
    times = read_or_nothing(task / "schedstat").split()
    counters = dict(line.partition(":")[::2] for line in read_or_nothing(task / "io").splitlines())
    running, ready = (whole_number(text) for text in times[:2]) if len(times) > 1 else (None, None)
    if running is None or ready is None:
        return None
    moved = (whole_number(counters.get(name, "0").strip()) or 0 for name in ("rchar", "wchar"))
    return ThreadUsage((running + ready) / NANOSECONDS, sum(moved))

"""Stacks of a running Python process: through py-spy, which needs no cooperation, or from PyTorch's worker server."""

from __future__ import annotations

import contextlib
import pwd
import re
import shutil
import sys
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import msgspec

from ddpdoctor.evidence.frames import Frame, is_users
from ddpdoctor.evidence.stacks import Thread
from ddpdoctor.json_errors import JSON_ERRORS
from ddpdoctor.launch.guarded_process import ProgramEnd, run_each

PY_SPY_SECONDS = 4.0  # a dump takes 0.02 s, 0.1 s on a loaded machine; more means that it cannot
NATIVE_SECONDS = 8.0  # reads the symbols of libtorch: 1 s
_NUMBER = re.compile(r"[0-9]{1,9}")
_ANY_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,30})?(?:e[-+]?[0-9]{1,3})?")
_HOST = re.compile(r"[\w.:\-]{1,253}")
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
CONTAINER = "start the container with `--cap-add=SYS_PTRACE` (Kubernetes: capabilities.add SYS_PTRACE)"

Counters: TypeAlias = dict[tuple[int, str, str, str], float]
"""Numbers by the depth of their frame, counted from outside, its file, its function, and their name."""


class NoStacks(Exception):  # noqa: N818 - it is an answer: the reason why there are none
    """Stacks could not be read; the message says exactly what is missing."""


def py_spy(pid: int) -> tuple[Thread, ...]:
    """The threads of process `pid`.

    Raises:
        NoStacks: py-spy is missing, may not attach, or the process is no Python or gone.
    """
    found = py_spy_each([pid])[pid]
    if isinstance(found, NoStacks):
        raise found
    return found


def py_spy_each(
    pids: Sequence[int], *, native: bool = False, stopped: Collection[int] = ()
) -> dict[int, tuple[Thread, ...] | NoStacks]:
    """By process, its threads, or the reason why they cannot be read; those in `stopped` are read without pausing them."""
    program = py_spy_program()
    if program is None:
        return dict.fromkeys(pids, NoStacks("py-spy is not installed: `pip install py-spy`"))
    seconds = NATIVE_SECONDS if native else PY_SPY_SECONDS
    ends = run_each([_command(program, pid, native, pid in stopped) for pid in pids], deadline_seconds=seconds)
    return {pid: _read_end(pid, ended, seconds) for pid, ended in zip(pids, ends, strict=True)}


def integers_of(pids: Sequence[int], *, file: str, function: str, name: str) -> dict[int, int]:
    """By process, the number that the variable `name` of `function` in `file` has, as `numbers_of` reads several."""
    found = numbers_of(pids, file=file, function=function, names=(name,))
    return {pid: values[name] for pid, values in found.items() if name in values}


def numbers_of(pids: Sequence[int], *, file: str, function: str, names: Sequence[str]) -> dict[int, dict[str, int]]:
    """By process, the numbers that these variables of `function` in `file` have on its main thread's stack.

    Processes that do not run the function, or that cannot be read, are left out. No other value of them is kept.
    """
    found = _texts_of(pids, file=file, function=function, names=names)
    return {
        pid: {name: int(text) for name, text in values.items() if _NUMBER.fullmatch(text)}
        for pid, values in found.items()
    }


def addresses_of(pids: Sequence[int], *, file: str, function: str, host: str, port: str) -> dict[int, str]:
    """By process, `HOST:PORT` from the two variables of `function` in `file`, as `integers_of` reads one number."""
    found = _texts_of(pids, file=file, function=function, names=(host, port))
    addresses = {}
    for pid, values in found.items():
        name, number = values.get(host, "").strip("\"'"), values.get(port, "").strip("\"'")
        if _HOST.fullmatch(name) and _NUMBER.fullmatch(number):
            addresses[pid] = f"{name}:{number}"
    return addresses


def _texts_of(pids: Sequence[int], *, file: str, function: str, names: Sequence[str]) -> dict[int, dict[str, str]]:
    """By process, these variables of a function as py-spy writes them, where all its frames agree."""
    found = {}
    for pid, threads in _with_locals(pids):
        frames = [frame for thread in threads for frame in thread.frames]
        here = [frame for frame in frames if frame.filename.endswith(file) and frame.name == function]
        each = {(one.name, one.repr) for frame in here for one in frame.locals or () if one.name in names}
        values = {name: text for name, text in each if text is not None}
        if values and len(values) == len(each):
            found[pid] = values
    return found


@dataclass(frozen=True, slots=True)
class FrameVariables:
    """The variables of the user's own functions on one process's main thread's stack, without those of a module itself."""

    numbers: Counters
    """Those that are numbers."""
    others: Mapping[tuple[int, str, str, str], int]
    """A fingerprint of each other one, by which two looks tell whether it changed."""


def variables_of(pids: Sequence[int]) -> dict[int, FrameVariables]:
    """By process, its variables. Processes that cannot be read are left out."""
    found = {}
    for pid, threads in _with_locals(pids):
        main = number_of_main_thread(pid)
        frames = [frame for thread in threads if thread.os_thread_id == main for frame in thread.frames[::-1]]
        texts = {
            (depth, frame.filename, frame.name, one.name): one.repr
            for depth, frame in enumerate(frame for frame in frames if is_users(frame.filename))
            for one in frame.locals or ()
            if one.repr is not None
        }
        numbers = {key: _number(text) for key, text in texts.items() if _ANY_NUMBER.fullmatch(text)}
        others = {key: zlib.crc32(text.encode()) for key, text in texts.items() if key not in numbers}
        found[pid] = FrameVariables(numbers, others)
    return found


def _number(text: str) -> float:
    return int(text) if _NUMBER.fullmatch(text) else float(text)


def _with_locals(pids: Sequence[int]) -> Iterator[tuple[int, list[_Thread]]]:
    """The threads of each process that can be read, with the variables of their functions."""
    program = py_spy_program()
    commands = [[program, "dump", "--json", "--locals", "--pid", str(pid)] for pid in pids] if program else []
    for pid, ended in zip(pids, run_each(commands, deadline_seconds=PY_SPY_SECONDS), strict=False):
        with contextlib.suppress(*JSON_ERRORS):
            yield pid, msgspec.json.decode(ended.stdout, type=list[_Thread]) if ended.code == 0 else []


def py_spy_program() -> str | None:
    """Where py-spy is; None where it is not installed."""
    return shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")


def _command(program: str, pid: int, native: bool, stopped: bool) -> list[str]:
    options = ["--native"] if native else ["--nonblocking"] if stopped else []
    return [program, "dump", "--json", "--pid", str(pid), *options]


def _read_end(pid: int, ended: ProgramEnd, seconds: float) -> tuple[Thread, ...] | NoStacks:
    """What py-spy printed of process `pid`, or why it printed nothing."""
    if ended.timed_out:
        return NoStacks(f"py-spy did not finish within {seconds:.0f} s")
    if ended.code != 0:
        return NoStacks(_why(pid, ended.stderr))
    try:
        threads = msgspec.json.decode(ended.stdout, type=list[_Thread])
    except JSON_ERRORS as error:
        return NoStacks(f"py-spy did not return JSON: {error}")
    main = number_of_main_thread(pid)
    found = tuple(_thread(thread, main) for thread in threads if thread.frames or thread.os_thread_id == main)
    return found if main == pid else _with_states(found, pid)


class _Variable(msgspec.Struct):
    name: str
    repr: str | None = None


class _Frame(msgspec.Struct):
    name: str
    filename: str
    line: int = 0
    module: str | None = None
    locals: list[_Variable] | None = None


class _Thread(msgspec.Struct):
    frames: list[_Frame]
    thread_name: str | None = None
    os_thread_id: int | None = None
    active: bool = False
    owns_gil: bool = False


def number_of_main_thread(pid: int) -> int:
    """The process's number where it lives: py-spy counts threads as their own PID namespace (a container) does."""
    numbers = _status(Path(f"/proc/{pid}/status")).get("NSpid", "").split()
    return int(numbers[-1]) if numbers else pid


def _with_states(threads: tuple[Thread, ...], pid: int) -> tuple[Thread, ...]:
    """The threads of a process in a PID namespace: py-spy takes each for active there, as it looks under the wrong number."""
    running = set()
    for task in Path(f"/proc/{pid}/task").glob("*"):
        status = _status(task / "status")
        if status.get("State", "").startswith("R"):
            running.add(int(status["NSpid"].split()[-1]))
    return tuple(replace(thread, active=thread.os_id in running) for thread in threads)


def _thread(thread: _Thread, main: int) -> Thread:
    """The thread as evidence; functions go by their own name, without their class, as everywhere else in Python.

    Native frames stand above, and between, those of Python; only those above the innermost Python frame are kept.
    """
    python = [_is_python(frame) for frame in thread.frames]
    native = thread.frames[: python.index(True)] if True in python else thread.frames
    return Thread(
        name=thread.thread_name or "",
        frames=tuple(
            Frame(file=frame.filename, line=frame.line, function=frame.name.rpartition(".")[2])
            for frame, ours in zip(thread.frames, python, strict=True)
            if ours
        ),
        os_id=thread.os_thread_id,
        main=thread.os_thread_id == main,
        active=thread.active,
        holds_gil=thread.owns_gil,
        native=tuple(f"{frame.name} ({Path(frame.filename).name})" for frame in native),
    )


def _is_python(frame: _Frame) -> bool:
    return frame.module is None and not re.search(r"\.so(\.|$)", frame.filename)


def _why(pid: int, complaint: str) -> str:
    """What py-spy's complaint means, and what would have to change."""
    if re.search(r"permission denied|operation not permitted|os error 1\b", complaint, re.IGNORECASE):
        return why_forbidden(pid)
    if (
        re.search(r"no such process|os error 3\b|os error 2\b", complaint, re.IGNORECASE)
        or not Path(f"/proc/{pid}").exists()
    ):
        return f"process {pid} has ended"
    last = next((line.strip() for line in reversed(complaint.splitlines()) if line.strip()), "no reason given")
    return f"py-spy: {last}"


def why_forbidden(pid: int) -> str:
    """Why this process may not look into `pid`: the first of the things that the kernel asks for and that is not there."""
    ours, theirs = _status(Path("/proc/self/status")), _status(Path(f"/proc/{pid}/status"))
    may_trace_all = int(ours.get("CapEff", "0"), 16) >> 19 & 1  # CAP_SYS_PTRACE
    if not may_trace_all and ours.get("Uid", "0").split()[:1] != theirs.get("Uid", "0").split()[:1]:
        return f"process {pid} belongs to user {_name(theirs.get('Uid', '?').split()[0])}: run ddpdoctor as that user, or as root"
    scope = _read(YAMA)
    if scope == "3":
        return f"{YAMA} is 3, so no process can be traced, not even by root, until this host is rebooted with another value"
    if scope in {"1", "2"} and not may_trace_all:
        allowed = "a parent or a process with CAP_SYS_PTRACE" if scope == "1" else "a process with CAP_SYS_PTRACE"
        return (
            f"{YAMA} is {scope}, so only {allowed} can trace it: {_to_get_it(ours)}, or `sudo sysctl "
            "kernel.yama.ptrace_scope=0`"
        )
    if ours.get("Seccomp") == "2" or not may_trace_all:
        return f"the container forbids ptrace: {CONTAINER}"
    return f"the kernel does not allow tracing process {pid}, although CAP_SYS_PTRACE is set"


def _to_get_it(ours: Mapping[str, str]) -> str:
    """How a process that lacks CAP_SYS_PTRACE gets it: root has it, except in a container."""
    return CONTAINER if ours.get("Uid", "").startswith("0\t") else "run ddpdoctor as root"


def _name(user: str) -> str:
    try:
        return pwd.getpwuid(int(user)).pw_name
    except (KeyError, ValueError):
        return user


def _status(path: Path) -> dict[str, str]:
    fields = (line.partition(":") for line in _read(path).splitlines())
    return {name: value.strip() for name, separator, value in fields if separator}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""

"""How a process ended: the error that ended it, and the exit codes of the processes that it started and collected."""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from .imports import after_import
from .rank import Rank

if TYPE_CHECKING:
    from traceback import StackSummary

MOST_FRAMES = 64


def record_error(rank: Rank, error: BaseException) -> None:
    """Write `error` to `PID.error`, the first one of this process only: what follows it are consequences."""
    with rank.giving_up("recording the rank's error"):
        _write_error(rank, described(error))
    keep_recorder(rank)


def _write_error(rank: Rank, told: dict[str, Any]) -> None:
    import json

    try:
        descriptor = os.open(rank.path("error"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"at": time.time(), **told}, file)


def keep_recorder(rank: Rank) -> None:
    """Write the flight recorder, as it is at the end of this rank, to `PID.recorder`; only the first time."""
    with rank.giving_up("keeping the flight recorder"):
        from .answers import recorder_pickle

        path = rank.path("recorder")
        if not os.path.exists(path):
            with open(f"{path}.part", "wb") as file:
                file.write(recorder_pickle())
            os.rename(f"{path}.part", path)


def described(error: BaseException, depth: int = 0) -> dict[str, Any]:
    """The error with its stack, innermost first, and what it was raised from, as JSON can hold it."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return {
        "type": type(error).__name__,
        "message": str(error)[:20_000],
        "stack": _frames(frames),
        "cause": described(cause, depth + 1) if cause is not None and depth < 4 else None,
    }  # fmt: skip


def _frames(frames: StackSummary) -> list[dict[str, Any]]:
    return [
        {"file": os.path.abspath(frame.filename) if os.path.exists(frame.filename) else frame.filename,
         "line": frame.lineno or 0, "function": frame.name}
        for frame in reversed(frames[-MOST_FRAMES:])
    ]  # fmt: skip


class Leaving:
    """Notes why the main thread last called `sys.exit` with a failure: the error that it was handling, or the call itself."""

    def __init__(self, rank: Rank) -> None:
        self.told: dict[str, Any] | None = None
        original = sys.exit

        @functools.wraps(original)
        def leave(status: Any = None, /) -> NoReturn:  # noqa: ANN401
            with rank.giving_up("noting a call of sys.exit"):
                fails = status is not None and status != 0
                if fails and rank.is_here() and threading.current_thread() is threading.main_thread():
                    self.told = self._describe(status)
            original(status)

        sys.exit = leave

    def _describe(self, status: object) -> dict[str, Any]:
        import traceback

        handled = sys.exc_info()[1]
        if handled is not None and not isinstance(handled, SystemExit):
            return described(handled)
        stack = traceback.extract_stack(sys._getframe(2))  # noqa: SLF001 - the caller of `leave`
        return {"type": "SystemExit", "message": str(status)[:20_000], "stack": _frames(stack), "cause": None}


def record_uncaught(rank: Rank) -> None:
    """Record the error that ends this rank, whoever else's hook shows it, and leave every hook as it is.

    The interpreter keeps the error in `sys.last_value` before it calls `sys.excepthook`, and runs `atexit` after.
    """
    original = sys.excepthook
    leaving = Leaving(rank)

    @functools.wraps(original)
    def excepthook(kind: type[BaseException], error: BaseException, trace: Any) -> None:  # noqa: ANN401
        if rank.is_here():
            record_error(rank, error)
        original(kind, error, trace)

    def at_exit() -> None:
        error = getattr(sys, "last_value", None)
        if rank.is_here():
            if error is not None:
                record_error(rank, error)
            elif leaving.told is not None:
                with rank.giving_up("recording why the rank left"):
                    _write_error(rank, leaving.told)
            keep_recorder(rank)
            with rank.giving_up("noting that it left"), open(rank.path("left"), "w", encoding="utf-8") as file:
                file.write(str(time.time()))

    with rank.giving_up("keeping the stack of a crash in native code"):
        _keep_native_crash(rank)
    sys.excepthook = excepthook
    atexit.register(at_exit)


def _keep_native_crash(rank: Rank) -> None:
    """Have faulthandler write where Python was when SIGSEGV, SIGABRT or the like ends this rank, unless the user has it."""
    import faulthandler

    if not faulthandler.is_enabled():
        faulthandler.enable(os.open(rank.path("crash"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))  # for life


def record_children(rank: Rank) -> None:
    """Follow the launchers of Python: whoever collects a child's exit code adds it to `exits`.

    A rank that is killed cannot say so itself, and torchrun and `mp.spawn` are ordinary Python processes.
    """
    handler = "torch.distributed.elastic.multiprocessing.subprocess_handler"
    after_import(handler, lambda _: _follow_subprocesses(rank), rank)
    after_import("multiprocessing.popen_fork", lambda module: _follow_polls(rank, module), rank)
    after_import("multiprocessing.process", lambda module: _follow_targets(rank, module), rank)
    after_import("torch.multiprocessing.spawn", lambda module: _follow_spawned(rank, module), rank)


def _collected(rank: Rank, pid: int, code: int) -> None:
    with rank.giving_up("recording an exit code"), open(os.path.join(rank.directory, "exits"), "a") as file:
        file.write(f"{pid} {code} {time.time()} {os.getpid()}\n")


def _follow_subprocesses(rank: Rank) -> None:
    """Torchrun starts its ranks with `subprocess.Popen`."""
    import subprocess

    original: Callable[..., Any] = subprocess.Popen._handle_exitstatus  # type: ignore[attr-defined]  # noqa: SLF001

    @functools.wraps(original)
    def handle_exitstatus(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        result = original(self, *args, **kwargs)
        if self.returncode is not None:
            _collected(rank, self.pid, self.returncode)
        return result

    subprocess.Popen._handle_exitstatus = handle_exitstatus  # type: ignore[attr-defined]  # noqa: SLF001


def _follow_polls(rank: Rank, popen_fork: ModuleType) -> None:
    """`multiprocessing` collects all its processes here, however they were started."""
    original = popen_fork.Popen.poll

    @functools.wraps(original)
    def poll(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        known = self.returncode
        code = original(self, *args, **kwargs)
        if known is None and code is not None:
            _collected(rank, self.pid, code)
        return code

    popen_fork.Popen.poll = poll


def _follow_targets(rank: Rank, process: ModuleType) -> None:
    """`multiprocessing` shows a child's error itself: no hook of the interpreter sees it."""
    original = process.BaseProcess.run

    @functools.wraps(original)
    def run(self: Any) -> Any:  # noqa: ANN401
        return _recording(rank, original)(self)

    process.BaseProcess.run = run


def _follow_spawned(rank: Rank, spawn: ModuleType) -> None:
    """`torch.multiprocessing.spawn` catches its children's errors and sends them to the parent as text."""
    original: Callable[..., Any] = spawn._wrap  # noqa: SLF001

    @functools.wraps(original)
    def wrap(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return original(_recording(rank, function), *args, **kwargs)

    spawn._wrap = wrap  # type: ignore[attr-defined]  # noqa: SLF001


def _recording(rank: Rank, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if rank.is_here():
                record_error(rank, error)
            raise

    return recorded

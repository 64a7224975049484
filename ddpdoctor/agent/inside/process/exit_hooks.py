"""How a process ended: the error that ended it, and the exit codes of the processes that it started and collected."""

from __future__ import annotations

import atexit
import builtins
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from ..post_import_hook import after_import
from ..rank_process import Rank
from ..signal_errors import pass_on

if TYPE_CHECKING:
    from ..schema.error import Error
    from ..schema.source_line import SourceLine

MOST_FRAMES = 64
MOST_CHARACTERS = 20_000
MOST_CAUSES = 4
SHOWN_SECONDS = 10.0  # from the log of an error to the end that it leads to: a clean-up may stand between


def record_error(rank: Rank, error: BaseException) -> None:
    """Write `error` to `PID.error`, the first one of this process only: what follows it are consequences."""
    with rank.giving_up("recording the rank's error"):
        _write_error(rank, described(error))
    keep_recorder(rank)


def _write_error(rank: Rank, error: Error) -> None:
    import json

    from ..schema.rank_end import RankFailure

    try:
        descriptor = os.open(rank.path("error"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError as exists:
        pass_on(exists)
        return
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(RankFailure(time.time(), error), file)


def keep_recorder(rank: Rank) -> None:
    """Write the flight recorder, as it is at the end of this rank, to `PID.recorder`; only the first time."""
    with rank.giving_up("keeping the flight recorder"):
        from .recorder_socket import recorder_pickle

        path = rank.path("recorder")
        if not os.access(path, os.F_OK):
            with open(f"{path}.part", "wb") as file:
                file.write(recorder_pickle())
            os.rename(f"{path}.part", path)


def described(error: BaseException, depth: int = 0) -> Error:
    """The error with its stack and what it was raised from."""
    import traceback

    from ..schema.error import Error

    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return Error(
        type=type(error).__name__,
        message=str(error)[:MOST_CHARACTERS],
        stack=_lines([*traceback.walk_tb(error.__traceback__)][::-1]),
        cause=described(cause, depth + 1) if cause is not None and depth < MOST_CAUSES else None,
    )


def _lines(frames: Sequence[tuple[FrameType, int]]) -> tuple[SourceLine, ...]:
    """Of the innermost of `frames`, which come first. `traceback` would read the source, and take what a handler raises then."""
    from ..schema.source_line import SourceLine

    codes = [(frame.f_code, line) for frame, line in frames[:MOST_FRAMES]]
    return tuple(SourceLine(_found(code.co_filename), line or 0, code.co_name) for code, line in codes)


def _found(file: str) -> str:
    """The absolute path of a file that is there."""
    return os.path.abspath(file) if os.access(file, os.F_OK) else file


class ShownErrors:
    """Keeps the exception whose traceback the main thread formatted last, to log or print it."""

    def __init__(self, rank: Rank) -> None:
        import traceback

        self._last: tuple[float, Error] | None = None
        self._inside = False
        original = traceback.TracebackException.__init__

        @functools.wraps(original)
        def formatted(this: Any, kind: Any, error: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            original(this, kind, error, *args, **kwargs)
            main = threading.current_thread() is threading.main_thread()
            if main and rank.is_here and not self._inside and getattr(error, "__traceback__", None) is not None:
                self._inside = True
                try:
                    with rank.giving_up("noting an error that the job logs"):
                        self._last = (time.monotonic(), described(error))
                finally:
                    self._inside = False

        setattr(traceback.TracebackException, "__init__", formatted)  # noqa: B010 - mypy knows it as a method

    def latest(self) -> Error | None:
        """The error, where it was shown just before; one that the job survived for longer explains no end."""
        if self._last is None or time.monotonic() - self._last[0] > SHOWN_SECONDS:
            return None
        return self._last[1]


class ExitReason:
    """Notes the main thread's last call of `sys.exit`, `exit` or `os._exit`: the reason of a failure, or the line without one.

    The reason of a failure is the error that it was handling, or had logged just before, or else the call itself.
    """

    def __init__(self, rank: Rank) -> None:
        self.error: Error | None = None
        self.called: tuple[SourceLine, ...] = ()
        self._shown = ShownErrors(rank)
        self._rank = rank
        sys_exit = sys.exit

        @functools.wraps(sys_exit)
        def leave(status: Any = None, /) -> NoReturn:  # noqa: ANN401
            with rank.giving_up("noting a call of sys.exit"):
                self.note(status)
            sys_exit(status)

        sys.exit = leave
        quitter = type(getattr(builtins, "exit", None))  # of `exit` and `quit`, which Python has without -S
        if quitter.__name__ == "Quitter":
            quit_ = quitter.__call__

            @functools.wraps(quit_)
            def leave_by_name(this: Any, code: Any = None) -> Any:  # noqa: ANN401
                with rank.giving_up("noting a call of exit"):
                    self.note(code)
                return quit_(this, code)

            setattr(quitter, "__call__", leave_by_name)  # noqa: B010 - mypy knows it as a method

    def note(self, status: object, above: int = 1) -> None:
        """Note that the job is about to leave with `status`; `above` is how many frames above this one are ours."""
        if self._rank.is_here and threading.current_thread() is threading.main_thread():
            fails = status is not None and status != 0
            self.error = self._describe(status, above + 1) if fails else None
            self.called = () if fails else _stack_of_the_caller(above)

    def _describe(self, status: object, above: int) -> Error:
        from ..schema.error import Error

        handled = sys.exc_info()[1]
        if handled is not None and not isinstance(handled, SystemExit):
            return described(handled)
        shown = self._shown.latest()
        if shown is not None:
            return shown
        return Error("SystemExit", str(status)[:MOST_CHARACTERS], _stack_of_the_caller(above))


def _stack_of_the_caller(above: int) -> tuple[SourceLine, ...]:
    """The stack of whoever called the function that asks; `above` is how many more frames are ours."""
    import traceback

    return _lines([*traceback.walk_stack(sys._getframe(2 + above))])  # noqa: SLF001


def record_uncaught(rank: Rank) -> None:
    """Record the error that ends this rank, whoever else's hook shows it, and leave every hook as it is.

    The interpreter keeps the error in `sys.last_value` before it calls `sys.excepthook`, and runs `atexit` after.
    """
    import json  # now: a rank that dies for want of descriptors can import nothing

    from ..schema.rank_end import Left

    original = sys.excepthook
    reason = ExitReason(rank)

    @functools.wraps(original)
    def excepthook(kind: type[BaseException], error: BaseException, trace: Any) -> None:  # noqa: ANN401
        if rank.is_here:
            record_error(rank, error)
        original(kind, error, trace)

    def left() -> None:
        if reason.error is not None:
            with rank.giving_up("recording why the rank left"):
                _write_error(rank, reason.error)
        keep_recorder(rank)
        with rank.giving_up("noting that it left"), open(rank.path("left"), "w", encoding="utf-8") as file:
            json.dump(Left(time.time(), reason.called), file)

    def left_at_once(status: object, *, by_the_program: bool) -> None:
        if by_the_program:
            with rank.giving_up("noting a call of os._exit"):
                reason.note(status, above=2)
        left()

    def at_exit() -> None:
        error = getattr(sys, "last_value", None)
        if rank.is_here:
            if error is not None:
                record_error(rank, error)
            left()

    with rank.giving_up("keeping the stack of a crash in native code"):
        _keep_native_crash(rank)
    sys.excepthook = excepthook
    atexit.register(at_exit)
    _record_os_exit(rank, left_at_once)
    _record_own_kill(rank)


def _record_own_kill(rank: Rank) -> None:
    """Have the stack of a thread that kills its process stand where that of a crash does: nothing runs after SIGKILL."""
    import faulthandler
    import signal

    fatal = signal.SIGKILL

    def keeping(original: Callable[..., None], *, is_own: Callable[..., bool]) -> Callable[..., None]:
        """`original`, whose last argument is a signal; the others say to whom, and `is_own` whether that is this process."""

        @functools.wraps(original)
        def send(*target_and_number: int) -> None:
            *target, number = target_and_number
            if number == fatal and rank.is_here and is_own(*target):
                with (
                    rank.giving_up("keeping the stack of a rank that kills itself"),
                    open(rank.path("crash"), "wb") as file,
                ):
                    file.write(b"Fatal Python error: Killed\n\n")
                    file.flush()
                    faulthandler.dump_traceback(file)
            original(*target_and_number)

        return send

    os.kill = keeping(os.kill, is_own=lambda process: process in {os.getpid(), 0, -os.getpgrp()})
    os.killpg = keeping(os.killpg, is_own=lambda group: group in {os.getpgrp(), 0})
    signal.raise_signal = keeping(signal.raise_signal, is_own=lambda: True)


def _record_os_exit(rank: Rank, left: Callable[..., None]) -> None:
    """Have `left` called before `os._exit`, after which nothing of Python runs any more.

    A child that multiprocessing has forked ends so, too, whatever it did: that is no call of the program's.
    """
    original = os._exit

    @functools.wraps(original)
    def leave(status: int) -> NoReturn:
        if rank.is_here and threading.current_thread() is threading.main_thread():
            caller = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001
            left(status, by_the_program=caller != "multiprocessing.popen_fork")
        original(status)

    os._exit = leave


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


def _collector(rank: Rank) -> Callable[[int, int], None]:
    """A function that adds a process and its exit code to `exits`."""
    import json

    from ..schema.rank_end import ExitCode

    def collected(pid: int, code: int) -> None:
        with rank.giving_up("recording an exit code"):
            line = json.dumps(ExitCode(pid, code, time.time(), os.getpid()))
            with open(os.path.join(rank.directory, "exits"), "a") as file:
                file.write(f"{line}\n")

    return collected


def _follow_subprocesses(rank: Rank) -> None:
    """Torchrun starts its ranks with `subprocess.Popen`."""
    import subprocess

    collected = _collector(rank)
    original: Callable[..., Any] = subprocess.Popen._handle_exitstatus  # type: ignore[attr-defined]  # noqa: SLF001

    @functools.wraps(original)
    def handle_exitstatus(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        result = original(self, *args, **kwargs)
        if self.returncode is not None:
            collected(self.pid, self.returncode)
        return result

    subprocess.Popen._handle_exitstatus = handle_exitstatus  # type: ignore[attr-defined]  # noqa: SLF001


def _follow_polls(rank: Rank, popen_fork: ModuleType) -> None:
    """`multiprocessing` collects all its processes here, however they were started."""
    collected = _collector(rank)
    original = popen_fork.Popen.poll

    @functools.wraps(original)
    def poll(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        known = self.returncode
        code = original(self, *args, **kwargs)
        if known is None and code is not None:
            collected(self.pid, code)
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
            if rank.is_here:
                record_error(rank, error)
            raise

    return recorded

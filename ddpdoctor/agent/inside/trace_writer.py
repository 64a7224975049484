"""What a rank writes down while it trains: JSON lines in a file of its own; nobody waits for anybody."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from itertools import chain
from operator import attrgetter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TextIO, TypeVar, cast

from .rank_process import Rank
from .schema.hardware_records import Probe
from .schema.rank_end import COMPARING
from .schema.source_line import SourceLine
from .schema.step_records import Step, UnwaitedWork
from .schema.training_trace import TraceRecord, carried_as, segment_name
from .signal_errors import is_the_jobs, job_keeps
from .user_code import is_programs, is_users

F = TypeVar("F", bound=Callable[..., None])
T = TypeVar("T")
SHORT_TEXT = 256  # characters, below which a text is looked through sooner than it is left out
STAND_IN = "\0verbatim"
ENCODED_STAND_IN = json.dumps(STAND_IN)[1:-1]
SEGMENT_LOOKS = 32  # at least, in a segment: enough for every rule that compares several audited steps
SEGMENT_BYTES = 1 << 17  # of disk that a segment takes from its beginning: more than 32 looks at a small model need
KEPT_SEGMENTS = 3  # the first one, the one that is being written, and the one before it
MOST_CARRIED = 1 << 20  # characters of one record that later segments repeat


class TraceWriter:
    """Writes records until something of ours fails: then it gives up for good, with a note in the report.

    With `segment_seconds` the trace is cut into files of at least this time and `SEGMENT_LOOKS` looks. The first and the last
    two are kept: a run of weeks then needs no more space than one of minutes, and a reader has this time to read what was
    written. The space of all three is taken at the beginning. Without, one file holds the whole trace.
    """

    def __init__(self, rank: Rank, *, segment_seconds: float = 0.0) -> None:
        self.rank = rank
        self.alive = True
        self.spent = 0.0  # seconds in observers
        self.is_seen = False
        """Whether modes of the job that see operations were on where the last observer was called."""
        self.segment = 0
        self._segment_seconds = segment_seconds
        self._began = time.monotonic()  # this segment
        self._looks = 0  # in this segment; none are counted without segments
        self._written = 0  # bytes, in this segment
        self._opening: dict[tuple[object, ...], str] = {}  # the lines that every segment begins with
        self._repeated: dict[str, Any] = {}  # what records of this segment refer to, by what it is
        self._file: Any = None
        self.together = _Together(self)
        """Inside, records are written at once when the block ends."""
        self.interrupted: list[Callable[[], None]] = []
        """What is called where an exception of the job's leaves an observer."""
        self.backwards = 0
        """How many backwards are running that raise what is `held` when they return."""
        self.held: BaseException | None = None

    def write(self, record: TraceRecord) -> None:
        """Append one record; a reader sees all of it or nothing."""
        line = _encoded([type(record).__name__, record]) + "\n"
        if self._segment_seconds:
            self._looks += isinstance(record, (Step, Probe))
            if len(line) <= MOST_CARRIED and (key := carried_as(record)) is not None:
                first = self._opening.pop(key, line)
                self._opening[key] = first if isinstance(record, UnwaitedWork) else line
        self._append(line)

    def unless_repeated(self, what: str, value: T) -> T | None:
        """`value`; None where it is what this was last called with in this segment."""
        if what in self._repeated and self._repeated[what] == value:
            return None
        self._repeated[what] = value
        return value

    def roll(self) -> None:
        """Begin a new segment where this one is full; what is written from here on refers to nothing in the others."""
        if self._looks < SEGMENT_LOOKS or time.monotonic() - self._began < self._segment_seconds:
            return
        self._file.truncate(max(self._written, SEGMENT_BYTES))  # the rest is for the next one
        self._file.close()
        self._file, self._written = None, 0
        self._looks, self._began = 0, time.monotonic()
        self._repeated.clear()
        self.segment += 1
        self._append("".join(self._opening.values()))
        if self.segment > KEPT_SEGMENTS - 1:
            with job_keeps(OSError):
                os.unlink(self.rank.path(segment_name(self.segment - 2)))

    def _append(self, text: str) -> None:
        if self.together.lines is not None:
            self.together.lines.append(text)
            return
        if self._file is None:
            self._file = self._opened()
        self._file.write(text)
        self._file.flush()
        self._written += len(text)

    def _opened(self) -> TextIO:
        """The file of this segment; zero bytes follow the records in it until it is closed."""
        path = self.rank.path(segment_name(self.segment))
        file = open(path, "w" if self._segment_seconds else "a", encoding="utf-8")  # noqa: SIM115 - open for life
        if not self._segment_seconds:
            return file
        with job_keeps(OSError):  # a full disk is reported by the first record that does not fit
            os.posix_fallocate(file.fileno(), 0, max(1, KEPT_SEGMENTS - self.segment) * SEGMENT_BYTES)
        return file

    def close(self) -> None:
        """Write nothing from here on."""
        self.alive = False
        if self._file is not None and not self._file.closed:
            with job_keeps(OSError):  # a full disk has been reported already
                if self._segment_seconds and self.rank.is_here:  # a forked child has the file of its parent
                    self._file.truncate(self._written)
                self._file.close()

    def observing(self, function: F) -> F:
        """`function`, made harmless: it never raises, is not compiled, and does nothing outside the rank or once we gave up.

        Modes of the job do not see what it does.

        A step calls several observers, and everything that an observer itself does is paid at every step.
        """
        from .job_modes import dispatch_modes, function_modes, set_aside

        compiler, rank, clock = _frame_compiler(), self.rank, time.perf_counter

        @functools.wraps(function)
        def observer(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            if compiler is not None and compiler():
                not_compiled(*args, **kwargs)  # only then: this guard costs more than most observers
            elif self.alive and rank.is_here:
                began = clock()
                try:
                    if dispatch_modes() or function_modes():
                        with set_aside() as self.is_seen:
                            function(*args, **kwargs)
                    else:
                        self.is_seen = False
                        function(*args, **kwargs)
                except BaseException as error:
                    self._failed(error)
                finally:
                    self.spent += clock() - began

        not_compiled: Any = _not_compiled(observer)
        observed: F = not_compiled if compiler is None else never_compiled(observer)
        return observed

    def counting(self, counts: Callable[..., bool], observer: F) -> F:
        """`observer`, called only where `counts`, called with the same arguments first, returns False: there is more to do.

        `counts` touches no tensor, or only where no mode is on: no mode is set aside for it. It is not timed. Where most calls
        are only to be counted, this takes a third of what the observer takes.
        """
        compiler, rank = _frame_compiler(), self.rank

        @functools.wraps(observer)
        def counted(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            if compiler is not None and compiler():
                not_compiled(*args, **kwargs)
            elif self.alive and rank.is_here:
                try:
                    is_done = counts(*args, **kwargs)
                except BaseException as error:
                    self._failed(error)
                    return
                if not is_done:
                    observer(*args, **kwargs)

        not_compiled: Any = _not_compiled(counted)
        result: F = not_compiled if compiler is None else never_compiled(counted)
        return result

    def _failed(self, error: BaseException) -> None:
        """An observer was left with `error`: what a handler of the job's has raised goes on to the job."""
        if is_the_jobs(error):
            self.leave_to_the_job(error)
            raise error
        self._fail(error)

    def leave_to_the_job(self, error: BaseException) -> None:
        """A signal handler of the job's has raised `error` in an observer, which did a part of its work only: do no more.

        What no `except Exception` of the job's takes ends the rank, and the end of the trace is still written.
        """
        for leave in self.interrupted:
            leave()
        self.together.end()  # the exception may have come where the block began
        if isinstance(error, Exception):
            self.alive = False
            self.rank.give_up(
                COMPARING, f"a signal handler of the job raised {type(error).__name__} in the midst of it"
            )

    def failed_in_backward(self, error: BaseException) -> None:
        """A hook on a gradient was left with `error`: what a handler of the job's has raised goes on to the job, but later."""
        if is_the_jobs(error):
            self.hold(error)
        else:
            self._fail(error)

    def hold(self, error: BaseException) -> None:
        """Let the job have `error` where its backward returns: a hook that raises it would break the reduction off.

        Without the agent's hooks no handler runs before that, as all of backward is native code.
        """
        try:
            self.leave_to_the_job(error)
        except BaseException as next_error:  # of the next signal; `error` is its context
            self.hold(next_error)
            return
        if not self.backwards:
            raise error
        self.held = error

    def raise_held(self) -> None:
        """A backward has returned."""
        if self.held is not None:
            error, self.held = self.held, None
            raise error

    def _fail(self, error: BaseException) -> None:
        """Give up for good, and say where."""
        self.alive = False
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        at = f" ({Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno})" if frame else ""
        self.rank.give_up(COMPARING, f"{type(error).__name__}: {error}{at}")


def never_compiled(observer: Any) -> Any:  # noqa: ANN401 - a function written in Python
    """`observer`, marked as `torch.compiler.disable` marks what is not compiled into its caller."""
    observer.__dict__["_torchdynamo_disable"] = True
    _leave_alone(observer.__code__)  # the mark is not asked for where the caller itself is not compiled
    return observer


class _Together(threading.local):
    """A block whose records take one call of the system; each thread has its own."""

    def __init__(self, trace: TraceWriter) -> None:
        self._trace = trace
        self.lines: list[str] | None = None

    def __enter__(self) -> None:
        self.lines = []

    def __exit__(self, *_error: object) -> None:
        self.end()

    def end(self) -> None:
        """Write what was collected."""
        lines, self.lines = self.lines, None
        if lines:
            self._trace._append("".join(lines))  # noqa: SLF001 - a part of it


class _Verbatim:
    """Text that JSON holds as it is."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def verbatim(text: str) -> str:
    """What stands for `text` in a record: digits and ASCII letters, which are not looked through again for what JSON escapes.

    A record of a thousand tensors has 100,000 of them, at 20 instructions each. Short texts are returned as they are.
    """
    return cast("str", _Verbatim(text)) if len(text) > SHORT_TEXT else text


def _encoded(value: Any) -> str:  # noqa: ANN401 - a record
    """`value` as JSON."""
    texts: list[str] = []

    def stand_in(one: _Verbatim) -> str:
        texts.append(one.text)
        return STAND_IN

    parts = json.dumps(value, default=stand_in).split(ENCODED_STAND_IN)
    if len(parts) != len(texts) + 1:  # a name of the user's has it in it
        return json.dumps(value, default=attrgetter("text"))
    return "".join(chain.from_iterable(zip(parts, texts, strict=False))) + parts[-1]


def _not_compiled(observer: Any) -> Any:  # noqa: ANN401 - a function
    """`torch.compiler.disable`, but lazy."""
    import torch

    return getattr(torch, "_disable_dynamo")(observer)  # noqa: B009


def _frame_compiler() -> Callable[[], Any] | None:
    """What tells whether TorchDynamo compiles the frames of this thread; None where PyTorch does not tell."""
    try:
        from torch._C._dynamo.eval_frame import get_eval_frame_callback
    except ImportError:
        return None
    tells: Callable[[], Any] = get_eval_frame_callback
    return tells


def _leave_alone(code: CodeType) -> None:
    """Let TorchDynamo never compile `code`: `torch._dynamo` does the same, and importing it takes seconds."""
    import torch._C._dynamo.eval_frame as eval_frame

    skip: Any = getattr(eval_frame, "skip_code", None)  # until PyTorch 2.6
    if skip is not None:
        skip(code)
        return
    with job_keeps(AttributeError):
        action: Any = getattr(eval_frame, "_FrameAction")  # noqa: B009 - private, as the others
        strategy: Any = getattr(eval_frame, "_FrameExecStrategy")  # noqa: B009
        eval_frame.set_code_exec_strategy(code, strategy(action.SKIP, action.DEFAULT))


def user_line(frame: FrameType | None = None) -> SourceLine | None:
    """The line of the innermost frame that is the user's, from `frame` or the caller on; a framework's where none is."""
    frame = frame or sys._getframe(1)  # noqa: SLF001 - the way to one's callers
    first: SourceLine | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users(file):
            return SourceLine(file, frame.f_lineno, frame.f_code.co_name)
        if first is None and is_programs(file):
            first = SourceLine(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return first

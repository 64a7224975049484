"""Exceptions of the job's own signal handlers: a signal may come while the agent is at work, and its exception is the job's."""

from __future__ import annotations

import functools
from itertools import pairwise
from types import CodeType, FrameType, MethodType, TracebackType
from typing import Any

_VARIADIC = 0x04  # of a code's flags: `*args`


def is_the_jobs(error: BaseException) -> bool:
    """Whether `error` goes on to the job: what ends it, and what its handlers have raised. The agent raises no such errors."""
    return not isinstance(error, Exception) or is_of_handler(error)


def is_of_handler(error: BaseException) -> bool:
    """Whether a signal handler has raised `error`, or what it called, in the midst of what is handling it."""
    trace = error.__traceback__
    interrupted: FrameType | None = None
    while trace is not None:
        if interrupted is not None and _is_handler(trace.tb_frame, interrupted):
            return True
        interrupted, trace = trace.tb_frame, trace.tb_next
    return False


@functools.cache
def job_keeps(*ours: type[Exception]) -> JobKeeps:
    """Suppress exceptions of these types, but for those of the job's handlers."""
    return JobKeeps(ours)


class JobKeeps:
    """Such a block. It holds no state, and can be entered any number of times."""

    __slots__ = ("_ours",)

    def __init__(self, ours: tuple[type[Exception], ...]) -> None:
        self._ours = ours

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> bool:
        return isinstance(error, self._ours) and not is_the_jobs(error)


def pass_on(error: BaseException) -> None:
    """Raise `error` again where it is the job's; what the agent itself may not raise is left to the caller."""
    if is_the_jobs(error):
        raise error


def _is_handler(frame: FrameType, interrupted: FrameType) -> bool:
    """Whether `frame` is that of a handler, which Python calls with the signal's number and the interrupted frame."""
    code = frame.f_code
    arguments: list[Any] = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & _VARIADIC:
        arguments += frame.f_locals.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) or ()
    given = any(isinstance(first, int) and second is interrupted for first, second in pairwise(arguments))
    return given or code in _installed()


def _installed() -> list[CodeType]:
    """The code of the handlers that are installed now: one may have forgotten what it was given."""
    import signal  # rarely needed, and this file is loaded in each process of the job

    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    plain = (one.__func__ if isinstance(one, MethodType) else one for one in handlers)
    return [code for one in plain if isinstance(code := getattr(one, "__code__", None), CodeType)]

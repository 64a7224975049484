"""The command line that runs in this process, for reports and cases."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One command line."""

    command: str = "ddpdoctor"
    """As it is written in a shell, quoted where needed."""
    started_at: float = field(default_factory=time.time)
    """When it began, in seconds since the epoch."""


_current: ContextVar[Invocation] = ContextVar("invocation")


def begin(arguments: Sequence[str]) -> None:
    """Note that a command line with these arguments begins."""
    _current.set(Invocation(command=shlex.join(["ddpdoctor", *arguments])))


def current() -> Invocation:
    """The command line that began last."""
    return _current.get(Invocation())

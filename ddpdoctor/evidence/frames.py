"""A place in Python code, and whose code it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One call of a Python stack: the file, the line that runs in it, and the function."""

    file: str
    line: int
    function: str


_NOT_THE_USERS = re.compile(
    r"""
    /(?:site|dist)-packages/
    | /lib(?:64)?/python\d(?:\.\d+)?/
    | /torch/(?:_\w+|autograd|distributed|fx|multiprocessing|nn|optim|utils)/
    | /ddpdoctor/agent/
    | /bin/(?:torchrun|accelerate|deepspeed|fabric|lightning|ddpdoctor|pytest|ipython)$
    | ^<(?!stdin>|ipython|string>)
    | /sitecustomize\.py$
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=1 << 14)  # thousands of ranks run the same files
def is_users(file: str) -> bool:
    """Whether `file` is code of the user's own: not torch, not the standard library, not an installed package."""
    return bool(file) and not _NOT_THE_USERS.search(file.replace("\\", "/"))


def users_frames(stack: Iterable[Frame]) -> tuple[Frame, ...]:
    """The frames of the user's own code in `stack` (innermost first), outermost first."""
    return tuple(frame for frame in stack if is_users(frame.file))[::-1]


def users_frame(stack: Iterable[Frame]) -> Frame | None:
    """The innermost frame of the user's own code in `stack` (innermost first), or None where there is none."""
    return next((frame for frame in stack if is_users(frame.file)), None)

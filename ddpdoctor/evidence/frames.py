"""A place in Python code, and whose code it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One line of a Python stack."""

    file: str
    """As the interpreter knows it."""
    line: int
    """The number of the line, from 1."""
    function: str
    """The name of the function, `<module>` outside of any."""


_NOT_THE_USERS = re.compile(
    r"""
    /(?:site|dist)-packages/
    | /lib(?:64)?/python\d(?:\.\d+)?/
    | /torch/(?:_\w+|amp|autograd|cuda|distributed|fx|jit|multiprocessing|nn|optim|utils)/
    | /torch/(?:__init__|_\w+|functional|hub|serialization|storage|tensor)\.py$
    | /transformers/(?:models|utils|generation|data|integrations|pipelines)/ | /transformers/(?:trainer|modeling|training)\w*\.py$
    | /accelerate/(?:commands|utils)/ | /accelerate/(?:accelerator|launchers|data_loader|state|optimizer|scheduler)\.py$
    | /deepspeed/(?:runtime|launcher|comm|ops|moe|pipe|inference|accelerator|checkpoint|utils)/ | /deepspeed/__init__\.py$
    | /(?:pytorch_)?lightning(?:_fabric)?/(?:pytorch|fabric|trainer|core|loops|strategies|callbacks|plugins|utilities|connectors)/
    | /ddpdoctor/agent/
    | /bin/(?:torchrun|accelerate|accelerate-launch|deepspeed|fabric|lightning|ddpdoctor|pytest|ipython)$
    | ^<(?!stdin>|ipython|string>)
    | /sitecustomize\.py$
    """,
    re.VERBOSE,
)

_LAUNCHERS = re.compile(
    r"""
    (?:/|^)bin/(?:torchrun|accelerate|accelerate-launch|deepspeed|ds|horovodrun)$
    | torch/distributed/(?:run|launch|launcher/api|elastic/\S+)\.py$
    | torchelastic/ | /accelerate/commands/ | /deepspeed/launcher/
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=1 << 14)
def is_launchers(file: str) -> bool:
    """Whether `file` is code of torchrun, accelerate or another launcher."""
    return _LAUNCHERS.search(file.replace("\\", "/")) is not None


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

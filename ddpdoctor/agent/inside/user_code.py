"""Whose code a file is: the functions of ddpdoctor/evidence/frames.py.

That file lies beside us whether ddpdoctor is importable here or not, and is loaded under a name of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

_NAME = "_ddpdoctor_frames"
_FRAMES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "evidence", "frames.py")


def _load() -> ModuleType:
    spec = spec_from_file_location(_NAME, _FRAMES)
    if spec is None or spec.loader is None:
        raise ImportError(_FRAMES)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_frames = _load()
is_users: Callable[[str], bool] = _frames.is_users
is_programs: Callable[[str], bool] = _frames.is_programs


def pass_warnings_on(ours: Any) -> None:  # noqa: ANN401 - a function written in Python
    """Let the warnings of what `ours` calls name the line that called `ours`, as without it.

    `warnings.warn(..., stacklevel=2)` passes over the frames of files that are named like those of the import system.
    """
    ours.__code__ = ours.__code__.replace(co_filename="<ddpdoctor, as importlib._bootstrap>")


def show_as(ours: Any, original: Any) -> None:  # noqa: ANN401 - functions written in Python
    """Let `ours` stand in stacks with the file and the name of `original`, which it wraps.

    TorchDynamo decides by file which frames it leaves alone, and a stack that somebody reads should have no name of ours.
    """
    code = original.__code__
    ours.__code__ = ours.__code__.replace(co_filename=code.co_filename, co_name=code.co_name)
    if sys.version_info >= (3, 11):  # py-spy shows this name
        ours.__code__ = ours.__code__.replace(co_qualname=code.co_qualname)

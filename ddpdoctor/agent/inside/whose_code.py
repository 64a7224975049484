"""Whose code a file is: the functions of ddpdoctor/evidence/frames.py.

That file lies beside us whether ddpdoctor is importable here or not, and is loaded under a name of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

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

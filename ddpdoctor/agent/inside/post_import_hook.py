"""Act right after a module has been imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from .rank_process import Rank
from .signal_errors import pass_on

Callback = Callable[[ModuleType], None]


def after_import(name: str, callback: Callback, rank: Rank) -> None:
    """Call `callback(module)` once, when `name` has been imported; at once where it already is.

    What it raises is given up by `rank`: whoever imports the module never sees it.
    """

    def harmless(module: ModuleType) -> None:
        with rank.giving_up(f"following {name}"):
            callback(module)

    if name in sys.modules:
        harmless(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Waiting(name, harmless))


class _Waiting:
    """A finder that finds nothing itself: it lets the others find the module, and follows its loader once."""

    def __init__(self, name: str, callback: Callback) -> None:
        self._name = name
        self._callback = callback

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in [*sys.meta_path]:
            find = getattr(finder, "find_spec", None)  # Python itself passes over a finder without one, too
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                self._follow(spec)
                return spec
        return None

    def _follow(self, spec: ModuleSpec) -> None:
        """Have the callback run at the end of `exec_module`; the loader stays the one that Python chose."""
        loader = spec.loader
        if loader is None:
            return
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.__dict__.pop("exec_module", None)  # another that follows the same module may have taken it off
            execute(module)
            self._callback(module)

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError as error:  # a loader with slots: this job is not observed
            pass_on(error)
            return

"""The parameters of a module by name, walked through again only where the tree of modules has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import is_, itemgetter
from typing import Any

from torch import nn


class ParameterListing:
    """Every parameter of a module with its name; the same dict is returned for as long as it holds."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._named: dict[str, nn.Parameter] = {}
        self._module: nn.Module | None = None
        self._instances: list[dict[str, Any]] = []  # of all modules in it, their own dictionaries
        self._members: list[Any] = []

    def of(self, module: nn.Module) -> dict[str, nn.Parameter]:
        """The parameters of `module`, each once, by their names with the prefix."""
        if self._module is not module or not same(_members(self._instances), self._members):
            self._module = module
            self._instances = [*map(vars, module.modules())]
            self._members = _members(self._instances)
            self._named = {self._prefix + name: parameter for name, parameter in module.named_parameters()}
        return self._named

    def forget(self) -> None:
        """Keep nothing alive."""
        self._module, self._named, self._instances, self._members = None, {}, [], []


def same(these: list[Any], those: list[Any]) -> bool:
    """Whether both lists hold the same objects in the same order."""
    return len(these) == len(those) and all(map(is_, these, those))


_REGISTRIES: Callable[[dict[str, Any]], tuple[dict[str, Any], ...]] = itemgetter("_modules", "_parameters")


def _members(instances: Sequence[dict[str, Any]]) -> list[Any]:
    """The children and parameters that are registered in each of the modules with these dictionaries, in order.

    They are read as `nn.Module.__getattr__` does it, and without a line of Python for each.
    """
    registries = chain.from_iterable(map(_REGISTRIES, instances))
    return [*chain.from_iterable(map(dict.values, filter(None, registries)))]

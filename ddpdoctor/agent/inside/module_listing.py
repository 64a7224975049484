"""The parameters of a module by name, walked through again only where the tree of modules has changed."""

from __future__ import annotations

from operator import is_
from typing import Any

from torch import nn


class ParameterListing:
    """Every parameter of a module with its name; the same dict is returned for as long as it holds."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._named: dict[str, nn.Parameter] = {}
        self._modules: list[nn.Module] = []
        self._members: list[Any] = []

    def of(self, module: nn.Module) -> dict[str, nn.Parameter]:
        """The parameters of `module`, each once, by their names with the prefix."""
        if not self._modules or self._modules[0] is not module or not same(_members(self._modules), self._members):
            self._modules = [*module.modules()]
            self._members = _members(self._modules)
            self._named = {self._prefix + name: parameter for name, parameter in module.named_parameters()}
        return self._named

    def forget(self) -> None:
        """Keep nothing alive."""
        self._named, self._modules, self._members = {}, [], []


def same(these: list[Any], those: list[Any]) -> bool:
    """Whether both lists hold the same objects in the same order."""
    return len(these) == len(those) and all(map(is_, these, those))


def _members(modules: list[nn.Module]) -> list[Any]:
    """The children and parameters that are registered in each of the modules, in order."""
    children = [child for module in modules for child in module._modules.values()]  # noqa: SLF001 - no public name is as fast
    return children + [parameter for module in modules for parameter in module._parameters.values()]  # noqa: SLF001

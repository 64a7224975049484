"""The parameters of a module by name, walked through again only where the tree of modules has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import is_, itemgetter
from typing import Any

from torch import nn

from .signal_errors import pass_on


class ParameterListing:
    """Every parameter of a module with its name; the same dict is returned for as long as it holds."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._named: dict[str, nn.Parameter] = {}
        self._module: nn.Module | None = None
        self._modules: list[nn.Module] = []  # all that are in it, and itself
        self._instances: list[dict[str, Any]] = []  # their own dictionaries
        self._members: list[Any] = []

    def of(self, module: nn.Module) -> dict[str, nn.Parameter]:
        """The parameters of `module`, each once, by their names with the prefix."""
        if self._module is not module or not same(self._members_now(), self._members):
            self._module = module
            self._modules = [*module.modules()]
            self._instances = [*map(vars, self._modules)]
            self._members = self._members_now()
            self._named = {self._prefix + name: parameter for name, parameter in module.named_parameters()}
        return self._named

    def forget(self) -> None:
        """Keep nothing alive."""
        self._module, self._named, self._modules, self._instances, self._members = None, {}, [], [], []

    def _members_now(self) -> list[Any]:
        """The children and parameters that are registered in each of the modules, in order."""
        try:
            return _members(self._instances)
        except (
            KeyError,
            TypeError,
        ) as error:  # a module of TorchScript has its registries elsewhere, and they are no dicts
            pass_on(error)
            return [
                member
                for module in self._modules
                for member in chain(module._modules.values(), module._parameters.values())  # noqa: SLF001 - as above
            ]


def same(these: list[Any], those: list[Any]) -> bool:
    """Whether both lists hold the same objects in the same order."""
    return len(these) == len(those) and all(map(is_, these, those))


_REGISTRIES: Callable[[dict[str, Any]], tuple[dict[str, Any], ...]] = itemgetter("_modules", "_parameters")


def _members(instances: Sequence[dict[str, Any]]) -> list[Any]:
    """The children and parameters that are registered in each of the modules with these dictionaries, in order.

    They are read as `nn.Module.__getattr__` does it, and without a line of Python for each.

    Raises:
        KeyError: a module keeps its registries elsewhere.
        TypeError: a registry is no dict.
    """
    registries = chain.from_iterable(map(_REGISTRIES, instances))
    return [*chain.from_iterable(map(dict.values, filter(None, registries)))]

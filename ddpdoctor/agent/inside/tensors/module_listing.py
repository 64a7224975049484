"""The parameters or the buffers of a module by name, walked through again only where the tree of modules has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import attrgetter, is_, itemgetter
from typing import Any, Literal

from torch import nn

from ..signal_errors import pass_on

Kind = Literal["parameters", "buffers"]


class Listing:
    """Every tensor of one kind in a module, with its name; the same dict is returned for as long as it holds."""

    def __init__(self, kind: Kind, prefix: str) -> None:
        self._walk: Callable[[nn.Module], Iterator[tuple[str, Any]]] = getattr(nn.Module, f"named_{kind}")
        self._registries: Callable[[Any], tuple[Any, ...]] = itemgetter("_modules", f"_{kind}")
        self._registries_of_others: Callable[[Any], tuple[Any, ...]] = attrgetter("_modules", f"_{kind}")
        self._prefix = prefix
        self._named: dict[str, Any] = {}
        self._module: nn.Module | None = None
        self._modules: list[nn.Module] = []  # all that are in it, and itself
        self._instances: list[dict[str, Any]] = []  # their own dictionaries
        self._members: list[Any] = []

    def of(self, module: nn.Module) -> dict[str, Any]:
        """Those of `module`, each once, by their names with the prefix."""
        if self._module is not module or not same(self._members_now(), self._members):
            self._module = module
            self._modules = [*module.modules()]
            self._instances = [*map(vars, self._modules)]
            self._members = self._members_now()
            self._named = {self._prefix + name: tensor for name, tensor in self._walk(module)}
        return self._named

    def forget(self) -> None:
        """Keep nothing alive."""
        self._module, self._named, self._modules, self._instances, self._members = None, {}, [], [], []

    def _members_now(self) -> list[Any]:
        """The children and tensors that are registered in each of the modules, in order.

        They are read as `nn.Module.__getattr__` does it, and without a line of Python for each.
        """
        try:
            registries = chain.from_iterable(map(self._registries, self._instances))
            return [*chain.from_iterable(map(dict.values, filter(None, registries)))]
        except (
            KeyError,
            TypeError,
        ) as error:  # a module of TorchScript has its registries elsewhere, and they are no dicts
            pass_on(error)
            registries = chain.from_iterable(map(self._registries_of_others, self._modules))
            return [member for registry in registries for member in registry.values()]


def same(these: Sequence[Any], those: Sequence[Any]) -> bool:
    """Whether both lists hold the same objects in the same order."""
    return len(these) == len(those) and all(map(is_, these, those))

"""The parts of sharded and replicated tensors (FSDP2, HSDP, tensor parallel) that an optimizer steps on this rank, by name."""

from __future__ import annotations

import gc

from torch import Tensor, nn
from torch.optim import Optimizer

from .inventory import unwrapped
from .mesh import holders, is_meshed, local_part
from .prints import Prints


class Parts:
    """Finds the names once for each optimizer."""

    def __init__(self, prints: Prints) -> None:
        self._prints = prints
        self._names: dict[int, str] = {}

    def of(self, optimizer: Optimizer) -> dict[str, tuple[int, str]]:
        """The lowest rank that holds the same part, and the part's fingerprint, of each parameter on a device mesh."""
        meshed = [p for group in optimizer.param_groups for p in group["params"] if is_meshed(p)]
        if not meshed:
            return {}
        if any(id(parameter) not in self._names for parameter in meshed):
            self._names |= _names(meshed)
        prints = self._prints.by_name({self._names[id(p)]: local_part(p) for p in meshed})
        first = {self._names[id(p)]: min(holders(p), default=-1) for p in meshed}
        return {name: (first[name], digest) for name, digest in prints.items()}


def _names(parameters: list[Tensor]) -> dict[int, str]:
    """Names in the outermost modules of this process: neither FSDP2 nor tensor parallelism says which module it was given."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    found = {id(parameter): f"parameter {number}" for number, parameter in enumerate(parameters)}
    for module in modules:
        if id(module) not in inner:
            found |= {id(p): name for name, p in unwrapped(module).named_parameters() if id(p) in found}
    return found

"""The parts of sharded and replicated tensors (FSDP2, HSDP, tensor parallel) that an optimizer steps and keeps on this rank."""

from __future__ import annotations

import gc
from itertools import chain
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.optim import Optimizer

from .dtensor import holders, is_meshed, local_part
from .module_listing import same
from .named_tensors import unwrapped
from .schema.training_trace import Part
from .tensor_digests import Digests


class Parts:
    """Finds the names once for each optimizer."""

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._names: dict[int, str] = {}
        self._plain: WeakKeyDictionary[Optimizer, list[Tensor]] = WeakKeyDictionary()  # those with none on a mesh

    def of(self, optimizer: Optimizer) -> dict[str, Part]:
        """The lowest rank that holds the same part, and the part's fingerprint, of each parameter on a device mesh."""
        parameters: list[Tensor] = [*chain.from_iterable(group["params"] for group in optimizer.param_groups)]
        if same(parameters, self._plain.get(optimizer, [])):
            return {}
        meshed = [p for p in parameters if is_meshed(p)]
        if not meshed:
            self._plain[optimizer] = parameters
            return {}
        if any(id(parameter) not in self._names for parameter in meshed):
            self._names |= _names(meshed)
        digests = self._digests.by_name({self._names[id(p)]: local_part(p) for p in meshed}, "parts")
        first = {self._names[id(p)]: min(holders(p), default=-1) for p in meshed}
        return {name: Part(first[name], digest) for name, digest in digests.items()}

    def of_state(self, optimizer: Optimizer) -> dict[str, Part] | None:
        """The same of what the optimizer keeps on a device mesh, by names like `weight.exp_avg`; None where that is nothing."""
        held = {
            f"{self._names[id(parameter)]}.{key}": value
            for parameter, state in optimizer.state.items()
            if id(parameter) in self._names
            for key, value in state.items()
            if is_meshed(value)
        }
        if not held:
            return None
        digests = self._digests.by_name({name: local_part(value) for name, value in held.items()}, "state parts")
        return {name: Part(min(holders(held[name]), default=-1), digest) for name, digest in digests.items()}


def _names(parameters: list[Tensor]) -> dict[int, str]:
    """Names in the outermost modules of this process: neither FSDP2 nor tensor parallelism says which module it was given."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    found = {id(parameter): f"parameter {number}" for number, parameter in enumerate(parameters)}
    for module in modules:
        if id(module) not in inner:
            found |= {id(p): name for name, p in unwrapped(module).named_parameters() if id(p) in found}
    return found

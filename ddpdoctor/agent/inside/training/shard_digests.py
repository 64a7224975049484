"""The parts of sharded and replicated tensors (FSDP2, HSDP, tensor parallel) that an optimizer steps and keeps on this rank.

Buffers of these models are not sharded: every rank has all of them.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.optim import Optimizer

from ..schema.step_records import Part
from ..tensors.dtensor import holders, is_meshed, local_part
from ..tensors.module_listing import same
from ..tensors.named_tensors import unwrapped
from ..tensors.tensor_digests import Digests
from .buffer_writes import VERSION, BufferWrites


class ShardDigests:
    """Finds the names once for each optimizer."""

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._names: dict[int, str] = {}
        self._plain: WeakKeyDictionary[Optimizer, list[Tensor]] = WeakKeyDictionary()  # those with none on a mesh
        self._models: list[weakref.ref[nn.Module]] = []  # the outermost modules with parameters on a mesh
        self._writes = BufferWrites()

    def of(self, optimizer: Optimizer) -> dict[str, Part]:
        """What this rank holds of each parameter on a device mesh, and the lowest rank that holds the same part."""
        parameters: list[Tensor] = [*chain.from_iterable(group["params"] for group in optimizer.param_groups)]
        if same(parameters, self._plain.get(optimizer, [])):
            return {}
        meshed = [p for p in parameters if is_meshed(p)]
        if not meshed:
            self._plain[optimizer] = parameters
            return {}
        if any(id(parameter) not in self._names for parameter in meshed):
            self._name(meshed)
        return self._read({self._names[id(p)]: p for p in meshed}, "parts")

    def of_buffers(self) -> tuple[dict[str, str], dict[str, int]]:
        """By name, the buffers of the models whose parameters on a mesh were stepped so far: fingerprints, and counts of writes.

        Those of one number are left out: a rank counts in them for its own log, perhaps at few steps.
        """
        modules = [module for model in self._models if (module := model()) is not None]
        named = [(name, buffer) for module in modules for name, buffer in unwrapped(module).named_buffers()]
        times = Counter(name for name, _ in named)
        own = {
            name: buffer for name, buffer in named if times[name] == 1 and not is_meshed(buffer) and buffer.numel() > 1
        }
        if not own:
            return {}, {}
        self._writes.look(own)
        return self._digests.by_name(own, "buffers"), dict(zip(own, self._writes.of(own), strict=True))

    def of_state(self, optimizer: Optimizer) -> dict[str, Part] | None:
        """The same of what the optimizer keeps on a device mesh, by names like `weight.exp_avg`; None where that is nothing."""
        if not self._names:
            return None
        held = {
            f"{self._names[id(parameter)]}.{key}": value
            for parameter, state in optimizer.state.items()
            if id(parameter) in self._names
            for key, value in state.items()
            if is_meshed(value)
        }
        return self._read(held, "state parts") if held else None

    def _read(self, meshed: Mapping[str, Tensor], what: str) -> dict[str, Part]:
        """This rank's part of each; `what` is the same word for all calls with like tensors."""
        parts = {name: local_part(tensor) for name, tensor in meshed.items()}
        digests = self._digests.by_name(parts, what)
        parities = self._digests.parities_of(what, [*parts.values()])
        return {
            name: Part(
                min(holders(meshed[name]), default=-1),
                digests[name],
                _writes(part),
                parities[16 * place : 16 * place + 16],
                8 * part.element_size(),
            )
            for place, (name, part) in enumerate(parts.items())
        }

    def _name(self, parameters: list[Tensor]) -> None:
        """Give each its name in its outermost module: FSDP2 and tensor parallelism do not say which module they were given."""
        self._names |= {id(parameter): f"parameter {number}" for number, parameter in enumerate(parameters)}
        ids = {id(parameter) for parameter in parameters}
        for module in _outermost_modules():
            own = {id(p): name for name, p in unwrapped(module).named_parameters() if id(p) in ids}
            if own:
                self._names |= own
                if all(model() is not module for model in self._models):  # that of another optimizer, too
                    self._models.append(weakref.ref(module))


def _writes(part: Tensor) -> int:
    """How often operations have written it; a view shares the count with what it is a view of."""
    return 0 if part.is_inference() else VERSION(part)


def _outermost_modules() -> Iterable[nn.Module]:
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    return [module for module in modules if id(module) not in inner]

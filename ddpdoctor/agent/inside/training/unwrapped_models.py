"""Models beside the wrapped ones: an average of weights (EMA), a teacher, a target network. Nobody keeps their replicas equal.

They are found by their names in the running program, at the first audited step, the second, the fourth, and so on. One
fingerprint of each is written at every audited step, and the first lines that use it. Models that an optimizer trains are left
out: DDP518 is about these.
"""

from __future__ import annotations

import functools
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from ..reachable_objects import instance_dict, reachable
from ..schema.source_line import SourceLine
from ..schema.unwrapped_records import UnwrappedModel, UnwrappedModels, UnwrappedUse, UnwrappedWrite
from ..signal_errors import pass_on
from ..tensors.dtensor import is_meshed
from ..tensors.named_tensors import unwrapped
from ..tensors.tensor_digests import Digests
from ..trace_writer import TraceWriter, user_line
from .ddp_models import Models
from .forward_hook import ForwardHook
from .optimizer_settings import parameters_of
from .step_counts import StepCounts

MOST_MODELS = 8  # followed at a time
_CONTAINERS = frozenset({list, tuple, dict, OrderedDict})
MOST_TENSORS = 20_000  # of a list or dict: a longer one holds data


class _Beside:
    """One model beside the wrapped ones; `tensors` gives what is to be equal, None where the object is gone."""

    def __init__(self, kind: str, tensors: Callable[[], list[Tensor] | None], identity: int) -> None:
        self.kind, self.tensors, self.identity = kind, tensors, identity
        self.used: set[str] = set()  # how, since the last audited step
        self.is_written = False  # whether a line that writes it is known


class UnwrappedLog:
    """Follows these models on one rank."""

    def __init__(
        self,
        trace: TraceWriter,
        digests: Digests,
        models: Models,
        counts: StepCounts,
        optimizers: Callable[[], Iterable[Optimizer]],
    ) -> None:
        self._trace, self._digests, self._models, self._counts = trace, digests, models, counts
        self._optimizers = optimizers
        self._found: dict[str, _Beside] = {}
        self._times: Counter[str] = Counter()  # how many objects had a name so far
        self._audits = 0
        self._handles: list[RemovableHandle] = []
        self._is_off = False
        self._is_before_scripting = False

    def write(self, beside: int) -> None:
        """An audited step has been made that is the `beside`th of no wrapped model (0 for a wrapped one)."""
        self._audits += 1
        self._try(lambda: self._audit(beside))

    def close(self) -> None:
        """The process ends: how these models end."""
        self._try(lambda: self._write(0, "end"))
        self._leave()

    def _audit(self, beside: int) -> None:
        if self._audits & (self._audits - 1) == 0:
            self._look()
        self._write(beside, "step")

    def _try(self, look: Callable[[], None]) -> None:
        """Whatever fails in objects of the user's ends this look alone: the wrapped models are compared all the same."""
        if self._is_off or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()):
            return
        try:
            look()
        except Exception as error:
            pass_on(error)
            self._is_off = True
            self._found.clear()
            self._leave()

    def _leave(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def watched(self) -> dict[str, Callable[[], object]]:
        """By name, what changes with nearly every write of those whose line is not known."""
        found: dict[str, Callable[[], object]] = {}

        def choose() -> None:
            found.update({name: _element(one) for name, one in self._found.items() if not one.is_written})

        self._try(choose)
        return found

    def written(self, name: str, line: SourceLine) -> None:
        """The user's line that writes one."""
        if name in self._found:
            self._found[name].is_written = True
            self._trace.write(UnwrappedWrite(name, line))

    def _write(self, beside: int, phase: str) -> None:
        written = []
        for name, one in [*self._found.items()]:
            tensors = one.tensors()
            if tensors is None:
                del self._found[name]
                continue
            one.used.clear()
            written.append(UnwrappedModel(name, one.kind, len(tensors), self._digests.of(tensors, "models beside")))
        if written:
            self._trace.write(
                UnwrappedModels(self._counts.steps, self._counts.forwards, self._counts.since, beside, phase, written)
            )

    def _look(self) -> None:
        """Find those that are there now."""
        trained = {id(parameter) for one in self._optimizers() for parameter in parameters_of(one)}
        modules = [model.module for model in self._models if model.module is not None]
        own = {id(tensor) for module in modules for tensor in (*module.parameters(), *module.buffers())} | trained
        shapes = [Counter(tuple(p.shape) for p in module.parameters()) for module in modules]
        identities = {one.identity for one in self._found.values()}

        def enters(value: Any) -> bool:  # noqa: ANN401
            if issubclass(type(value), nn.Module):
                return not any(unwrapped(value) is module for module in modules) and _has_any(value, own)
            return not issubclass(type(value), Optimizer)

        for name, value, owner, attribute in reachable(enters):
            if len(self._found) >= MOST_MODELS:
                return
            is_module = issubclass(type(value), nn.Module)  # isinstance would ask the object, which may be a proxy
            each: list[tuple[str, _Beside | None]] = []
            if is_module:
                each = [("", _module(value, own, shapes))]
            elif owner is not None and type(value) in _CONTAINERS:
                each = [*_containers(value, owner, attribute, own, shapes)]
            for place, found in each:
                if found is None or found.identity in identities:
                    continue
                identities.add(found.identity)
                self._times[name + place] += 1
                number = self._times[name + place]
                label = f"{name}{place} (object {number})" if number > 1 else name + place
                self._found[label] = found
                if is_module:
                    self._follow_uses(label, value)

    def _follow_uses(self, name: str, module: nn.Module) -> None:
        self._leave_before_scripting()
        forwarded = ForwardHook(self._trace.observing(lambda _module, _inputs: self._use(name, "forward")))
        saved = ForwardHook(self._trace.observing(lambda _module, _inputs: self._use(name, "state_dict")))
        for one in (module, *module.children()):
            if isinstance(one, torch.jit.ScriptModule):
                continue  # it takes no hooks of Python's
            self._handles.append(one.register_forward_pre_hook(forwarded, prepend=True, with_kwargs=True))
            self._handles.append(one.register_state_dict_pre_hook(saved))

    def _leave_before_scripting(self) -> None:
        """`torch.jit.script` compiles the hooks of a module, and ours cannot be: there are none when it is called."""
        if self._is_before_scripting:
            return
        self._is_before_scripting = True
        script = torch.jit.script

        @functools.wraps(script)
        def scripted(obj: Any, optimize: Any = None, _frames_up: int = 0, *rest: Any, **named: Any) -> Any:  # noqa: ANN401
            if isinstance(obj, nn.Module):
                self._leave()
            return script(obj, optimize, _frames_up + 1, *rest, **named)

        torch.jit.script = scripted

    def _use(self, name: str, how: str) -> None:
        beside = self._found.get(name)
        if beside is None or how in beside.used:
            return
        beside.used.add(how)
        self._trace.write(UnwrappedUse(name, how, self._counts.steps, user_line()))


def _module(module: nn.Module, own: set[int], shapes: Sequence[Counter[tuple[int, ...]]]) -> _Beside | None:
    """A module none of whose tensors is of a wrapped model or trained, and that is a model: it has parameters.

    One without parameters counts where it keeps the weights of a wrapped model as buffers.
    """
    parameters = [p for p in module.parameters() if not is_meshed(p) and p.device.type != "meta"]
    if _has_any(module, own):
        return None
    as_buffers = not parameters
    if as_buffers and not _are_weights(list(module.buffers()), shapes):
        return None
    there = weakref.ref(module)

    def tensors() -> list[Tensor] | None:
        alive = there()
        if alive is None:
            return None
        listed = alive.buffers() if as_buffers else alive.parameters()
        return [tensor.detach() for tensor in listed if not is_meshed(tensor) and tensor.device.type != "meta"]

    return _Beside(type(module).__name__, tensors, id(module))


def _containers(
    value: Any, owner: Any, attribute: str, own: set[int], shapes: Sequence[Counter[tuple[int, ...]]]  # noqa: ANN401
) -> Iterator[tuple[str, _Beside | None]]:  # fmt: skip
    """Lists and dicts of tensors of the shapes of all parameters of a wrapped model that an object keeps, or keeps a list of.

    Yields (suffix, container): suffix is '' for the attribute itself, '[0]' for an item.
    """
    yield "", _container(value, owner, (attribute,), own, shapes)
    if 0 < len(value) <= MOST_MODELS:
        for key, inner in [*(value.items() if isinstance(value, dict) else enumerate(value))]:
            if type(inner) in _CONTAINERS and type(key) in {str, int}:
                yield f"[{key!r}]", _container(inner, owner, (attribute, key), own, shapes)


def _container(
    value: Any, owner: Any, path: tuple[Any, ...], own: set[int], shapes: Sequence[Counter[tuple[int, ...]]]  # noqa: ANN401
) -> _Beside | None:  # fmt: skip
    """One list or dict of tensors; `path` is the attribute, and the place in it where it is a list of these."""
    if not 0 < len(value) <= MOST_TENSORS:
        return None
    kept = [*(value.values() if isinstance(value, dict) else value)]
    if not all(isinstance(one, Tensor) for one in kept) or any(id(one) in own for one in kept):
        return None
    if not _are_weights(kept, shapes):
        return None
    try:
        there = weakref.ref(owner)
    except TypeError as error:
        pass_on(error)
        return None

    identity = id(value)  # a list cannot be referred to weakly: the owner's is the same one by its address

    def tensors() -> list[Tensor] | None:
        now = _at(instance_dict(there()), path)
        if now is None or id(now) != identity:
            return None
        listed = now.values() if isinstance(now, dict) else now
        return [one.detach() for one in listed if isinstance(one, Tensor)]

    return _Beside(type(owner).__name__, tensors, identity)


def _at(attributes: dict[str, Any], path: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """The attribute, or the item in it; None where it is gone."""
    attribute, *keys = path
    value: Any = attributes.get(attribute)
    for key in keys:
        there = dict(enumerate(value)) if type(value) in {list, tuple} else value if isinstance(value, dict) else {}
        value = there.get(key)
    return value


def _are_weights(tensors: Sequence[Tensor], shapes: Sequence[Counter[tuple[int, ...]]]) -> bool:
    """Whether the floating-point ones among `tensors` have at least the shapes of all parameters of one model."""
    have = Counter(tuple(one.shape) for one in tensors if one.is_floating_point() and not is_meshed(one))
    return any(model and not model - have for model in shapes)


def _has_any(module: nn.Module, own: set[int]) -> bool:
    return any(id(tensor) in own for tensor in (*module.parameters(), *module.buffers()))


def _element(one: _Beside) -> Callable[[], object]:
    """What changes with nearly every write: an element of the first tensor that has some, and of the last.

    They are views, chosen once: a model of many tensors would make each look as slow as itself. As text, because NaN is not equal
    to itself.
    """
    tensors = [tensor for tensor in one.tensors() or () if tensor.numel() and not tensor.is_sparse]
    ends = [tensor[(0,) * tensor.dim()] for tensor in (tensors[0], tensors[-1])] if tensors else []
    return lambda: [repr(end.item()) for end in ends]

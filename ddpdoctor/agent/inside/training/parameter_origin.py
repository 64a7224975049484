"""Where the user's code made what a finding may be about: parameters after the wrap, optimizers, communication hooks."""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.optim import Optimizer

from ..schema.source_line import SourceLine
from ..trace_writer import TraceWriter, user_line

HOOKS_OF_TORCH = "torch.distributed.algorithms.ddp_comm_hooks."
REDUCE_EQUALLY = {
    "default_hooks": ("allreduce_hook", "fp16_compress_hook", "bf16_compress_hook"),
    "powerSGD_hook": ("powerSGD_hook", "batched_powerSGD_hook"),
}
"""By their module, hooks that give all ranks of the state's group the same gradients."""
WRAPPERS = ("fp16_compress_wrapper", "bf16_compress_wrapper")
"""Functions of `default_hooks` that make a hook of another one."""


class Origins:
    """Lines of the user's code by what they made."""

    def __init__(self, trace: TraceWriter) -> None:
        self._trace = trace
        self._registered: dict[int, tuple[weakref.ref[Tensor], SourceLine]] = {}
        self._optimized: dict[int, tuple[weakref.ref[Tensor], SourceLine]] = {}
        self._unfrozen: SourceLine | None = None
        self._ignored: SourceLine | None = None
        self.wrapped_at: SourceLine | None = None
        """Where a model was wrapped last."""
        self.wrapped = False
        self.comm_hook: SourceLine | None = None
        self.hook_of_torch = False
        """Whether all hooks that were registered are PyTorch's, and give all ranks the same gradients."""
        self._others_hook = False

    def install(self, wrapper: Any) -> None:  # noqa: ANN401 - DistributedDataParallel
        """Follow registrations, parameter groups, `requires_grad_`, and what wrappers ignore and are hooked with."""
        observe = self._trace.observing
        registered, grouped = observe(self._note_parameter), observe(self._note_group)
        unfroze, ignored, hooked = observe(self._note_unfrozen), observe(self._note_ignored), observe(self.hooked)
        add_group: Any = Optimizer.add_param_group
        require: Any = nn.Module.requires_grad_
        ignore: Any = wrapper._set_params_and_buffers_to_ignore_for_model  # noqa: SLF001 - what DDP's documentation names
        register: Any = wrapper.register_comm_hook

        def on_parameter(_module: nn.Module, _name: str, parameter: Any) -> None:  # noqa: ANN401
            registered(parameter)

        @functools.wraps(add_group)
        def add_param_group(optimizer: Any, group: Any) -> None:  # noqa: ANN401
            add_group(optimizer, group)
            grouped(optimizer)

        @functools.wraps(require)
        def requires_grad_(module: Any, requires_grad: bool = True) -> Any:  # noqa: ANN401
            unfroze(requires_grad)
            return require(module, requires_grad)

        @functools.wraps(ignore)
        def set_ignored(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            ignored()
            return ignore(*args, **kwargs)

        @functools.wraps(register)
        def register_comm_hook(ddp: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            hooked(
                kwargs.get("state", args[0] if args else None), kwargs.get("hook", args[1] if len(args) > 1 else None)
            )
            return register(ddp, *args, **kwargs)

        register_module_parameter_registration_hook(on_parameter)
        Optimizer.add_param_group = add_param_group  # type: ignore[method-assign,assignment]
        nn.Module.requires_grad_ = requires_grad_  # type: ignore[method-assign,assignment]
        wrapper._set_params_and_buffers_to_ignore_for_model = staticmethod(set_ignored)  # noqa: SLF001
        wrapper.register_comm_hook = register_comm_hook

    def of(self, parameter: Tensor, standing: str) -> SourceLine | None:
        """The line that made `parameter` what it is: its registration after the wrap, its unfreezing, or its optimizer's.

        Of one that DDP ignores it is the call that says so, or the wrap, which reads it from the model.
        """
        if standing == "unfrozen":
            return self._unfrozen
        if standing == "ignored":
            return self._ignored or self.wrapped_at
        for notes in (self._registered, self._optimized):
            note = notes.get(id(parameter))
            if note is not None and note[0]() is parameter:
                return note[1]
        return None

    def registered(self, named: Mapping[str, Tensor]) -> dict[str, SourceLine]:
        """By name the lines that registered those of `named` that came to the model after the wrap."""
        if not self._registered:
            return {}
        notes = {name: self._registered.get(id(parameter)) for name, parameter in named.items()}
        return {name: note[1] for name, note in notes.items() if note is not None and note[0]() is named[name]}

    def hooked(self, state: Any, hook: Any) -> None:  # noqa: ANN401
        """A wrapper got the communication hook `hook` with `state`."""
        self.comm_hook = user_line()
        self._others_hook |= not (_reduces_equally(hook) and _is_for_all_ranks(state))
        self.hook_of_torch = not self._others_hook

    def _note_parameter(self, parameter: Any) -> None:  # noqa: ANN401
        if self.wrapped and isinstance(parameter, Tensor):
            self._note(self._registered, parameter)

    def _note_group(self, optimizer: Optimizer) -> None:
        for parameter in optimizer.param_groups[-1]["params"]:
            self._note(self._optimized, parameter)

    def _note_ignored(self) -> None:
        self._ignored = user_line()

    def _note_unfrozen(self, requires_grad: bool) -> None:
        if self.wrapped and requires_grad:
            self._unfrozen = user_line()

    def _note(self, notes: dict[int, tuple[weakref.ref[Tensor], SourceLine]], parameter: Tensor) -> None:
        line = user_line()
        if line is not None:
            notes[id(parameter)] = weakref.ref(parameter), line


def _reduces_equally(hook: Any) -> bool:  # noqa: ANN401
    """Whether `hook` is one of `REDUCE_EQUALLY`, or PyTorch's wrapper around one."""
    if any(hook is one for module, names in REDUCE_EQUALLY.items() for one in _loaded(module, names)):
        return True
    if not inspect.isfunction(hook):
        return False
    made_here = [code for one in _loaded("default_hooks", WRAPPERS) for code in one.__code__.co_consts]
    is_wrapper = any(hook.__code__ is code for code in made_here)
    return is_wrapper and _reduces_equally(inspect.getclosurevars(hook).nonlocals.get("hook"))


def _loaded(module: str, names: Sequence[str]) -> list[FunctionType]:
    """The functions of these names in one of PyTorch's modules of hooks; none where the program has not loaded it."""
    functions = (getattr(sys.modules.get(HOOKS_OF_TORCH + module), name, None) for name in names)
    return [function for function in functions if inspect.isfunction(function)]


def _is_for_all_ranks(state: Any) -> bool:  # noqa: ANN401
    """Whether PyTorch's hook with this state, which is a process group or has one, reduces over all ranks."""
    group = getattr(state, "process_group", state)
    return group is None or group is dist.group.WORLD

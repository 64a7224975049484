"""Where the user's code made what a finding may be about: parameters after the wrap, optimizers, communication hooks."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.optim import Optimizer

from .schema.source_line import SourceLine
from .trace_writer import TraceWriter, user_line

HOOKS_OF_TORCH = "torch.distributed.algorithms.ddp_comm_hooks."


class Origins:
    """Lines of the user's code by what they made."""

    def __init__(self, trace: TraceWriter) -> None:
        self._trace = trace
        self._registered: dict[int, tuple[weakref.ref[Tensor], SourceLine]] = {}
        self._optimized: dict[int, tuple[weakref.ref[Tensor], SourceLine]] = {}
        self._unfrozen: SourceLine | None = None
        self.wrapped = False
        self.comm_hook: SourceLine | None = None
        self.hook_of_torch = False
        """Whether `comm_hook` registers a hook of PyTorch's, which gives all ranks the same gradients."""

    def install(self, wrapper: Any) -> None:  # noqa: ANN401 - DistributedDataParallel
        """Follow registrations, parameter groups, `requires_grad_` and the wrapper's communication hooks."""
        observe = self._trace.observing
        registered, grouped = observe(self._note_parameter), observe(self._note_group)
        unfroze, hooked = observe(self._note_unfrozen), observe(self._note_comm_hook)
        add_group: Any = Optimizer.add_param_group
        require: Any = nn.Module.requires_grad_
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

        @functools.wraps(register)
        def register_comm_hook(ddp: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            hooked(kwargs.get("hook", args[1] if len(args) > 1 else None))
            return register(ddp, *args, **kwargs)

        register_module_parameter_registration_hook(on_parameter)
        Optimizer.add_param_group = add_param_group  # type: ignore[method-assign,assignment]
        nn.Module.requires_grad_ = requires_grad_  # type: ignore[method-assign,assignment]
        wrapper.register_comm_hook = register_comm_hook

    def of(self, parameter: Tensor, standing: str) -> SourceLine | None:
        """The line that made `parameter` what it is: its registration after the wrap, its unfreezing, or its optimizer's."""
        if standing == "unfrozen":
            return self._unfrozen
        for notes in (self._registered, self._optimized):
            note = notes.get(id(parameter))
            if note is not None and note[0]() is parameter:
                return note[1]
        return None

    def _note_parameter(self, parameter: Any) -> None:  # noqa: ANN401
        if self.wrapped and isinstance(parameter, Tensor):
            self._note(self._registered, parameter)

    def _note_group(self, optimizer: Optimizer) -> None:
        for parameter in optimizer.param_groups[-1]["params"]:
            self._note(self._optimized, parameter)

    def _note_unfrozen(self, requires_grad: bool) -> None:
        if self.wrapped and requires_grad:
            self._unfrozen = user_line()

    def _note_comm_hook(self, hook: Any) -> None:  # noqa: ANN401
        self.comm_hook = user_line()
        is_torchs = getattr(hook, "__module__", "").startswith(HOOKS_OF_TORCH)
        self.hook_of_torch = is_torchs and not getattr(hook, "__closure__", None)  # a wrapper may call the user's

    def _note(self, notes: dict[int, tuple[weakref.ref[Tensor], SourceLine]], parameter: Tensor) -> None:
        line = user_line()
        if line is not None:
            notes[id(parameter)] = weakref.ref(parameter), line

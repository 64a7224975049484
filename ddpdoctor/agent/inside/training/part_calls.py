"""Who calls parts of a wrapped model past its wrapper and its own forward, as `model.module.features(x)` does."""

from __future__ import annotations

import sys
from types import FrameType

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from ..schema.source_line import SourceLine
from ..trace_writer import user_line
from .ddp_models import WrappedModel
from .forward_hook import ForwardHook
from .training_window import TrainingWindow


class PartCalls:
    """After a step without a forward that was seen, the next call of any part opens the window, and its line is kept."""

    def __init__(self, window: TrainingWindow) -> None:
        self._window = window
        self._handles: list[RemovableHandle] = []

    def follow(self) -> None:
        """A backward came, and no forward of a wrapped model was seen before it: look out for the next call of a part."""
        if self._handles:
            return
        for model in self._window.replica.models:
            hook = ForwardHook(self._window.replica.trace.observing(lambda *_given, model=model: self._called(model)))
            for part in [*model.module.modules()][1:] if model.module is not None else ():
                if not isinstance(part, torch.jit.ScriptModule):  # it takes no hooks of Python's
                    self._handles.append(part.register_forward_pre_hook(hook, prepend=True, with_kwargs=True))

    def _called(self, model: WrappedModel) -> None:
        """A part of `model` is about to run in training: hooks of its gradients are there from here on."""
        if not torch.is_grad_enabled() or self._window.is_elsewhere():
            return
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if not self._window.is_open:
            self._window.begin()
            model.forward()
            if model.bypassed is not None and model.module is not None:
                model.bypassed = _line_outside(model.module)


def _line_outside(module: nn.Module) -> SourceLine | None:
    """The user's line that called a method of `module` or a part of it, from outside of them."""
    parts = {id(part) for part in module.modules()}
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the way to one's callers
    outermost = None
    while frame is not None:
        if id(frame.f_locals.get("self")) in parts:
            outermost = frame
        frame = frame.f_back
    return user_line(outermost and outermost.f_back)

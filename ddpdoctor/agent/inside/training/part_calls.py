"""Who calls parts of a wrapped model past its wrapper and its own forward, as `model.module.features(x)` does."""

from __future__ import annotations

import torch
from torch.utils.hooks import RemovableHandle

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

"""A hook on a module of the user's that nobody finds in a pickle or a copy of the module."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn


class ForwardHook:
    """A hook on the user's module that leaves no trace of ours in a pickle or a copy of it: there it does nothing.

    A pre-hook is called as hook(module, args, kwargs), and `nullcontext().__exit__` takes any three things and returns None.
    One before a state dict is made is called as hook(module, prefix, keep_vars).
    """

    def __init__(self, function: Callable[[nn.Module, Any], None]) -> None:
        self._function = function
        self.skips_next = False
        """Whether the next forward is passed over, as its wrapper's has been seen."""

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        """Call the function, except where TorchDynamo traces the module."""
        if torch.compiler.is_compiling():
            return  # before anything is read of this hook: each change of it would compile the module again
        if self.skips_next:
            self.skips_next = False
        else:
            self._function(module, [args, kwargs])

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")

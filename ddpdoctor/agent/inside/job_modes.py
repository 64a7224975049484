"""Modes of the job, which see each operation of PyTorch: what the agent reads is none of theirs.

They are a `TorchDispatchMode` (counters of operations, profilers of memory), a `TorchFunctionMode` and a default device. They are
taken off this thread's stacks while an observer runs, and are back on them when it returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import _pop_mode as pop_function_mode
from torch.overrides import _push_mode as push_function_mode
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _pop_mode as pop_dispatch_mode
from torch.utils._python_dispatch import _push_mode as push_dispatch_mode

dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack  # noqa: SLF001 - no public name
"""How many modes of operations are on in this thread."""
function_modes: Callable[[], int] = torch._C._len_torch_function_stack  # noqa: SLF001 - no public name
"""How many modes of functions, one of which is a default device."""


class _SetAside(threading.local):
    """The modes that are off in this thread, in the order in which they were taken off."""

    def __init__(self) -> None:
        self.of_dispatch: list[Any] = []
        self.of_function: list[Any] = []


_aside = _SetAside()


@contextmanager
def set_aside() -> Iterator[bool]:
    """Inside, no mode of the job is on. Gives whether one was that sees operations: a default device sees what makes tensors."""
    before = len(_aside.of_dispatch), len(_aside.of_function)
    try:
        while function_modes():
            _aside.of_function.append(pop_function_mode())
        while dispatch_modes():
            _aside.of_dispatch.append(pop_dispatch_mode())
        functions = _aside.of_function[before[1] :]
        yield len(_aside.of_dispatch) > before[0] or not all(isinstance(mode, DeviceContext) for mode in functions)
    finally:
        while len(_aside.of_dispatch) > before[0]:
            push_dispatch_mode(_aside.of_dispatch.pop())
        while len(_aside.of_function) > before[1]:
            push_function_mode(_aside.of_function.pop())


@contextmanager
def put_back() -> Iterator[None]:
    """Inside, the modes that were set aside are on: code of the job runs, a repeated step or a probe's forward."""
    of_dispatch, of_function = _aside.of_dispatch, _aside.of_function
    _aside.of_dispatch, _aside.of_function = [], []
    try:
        for mode in reversed(of_dispatch):
            push_dispatch_mode(mode)
        for mode in reversed(of_function):
            push_function_mode(mode)
        yield
    finally:
        for _ in of_function:
            pop_function_mode()
        for _ in of_dispatch:
            pop_dispatch_mode()
        _aside.of_dispatch, _aside.of_function = of_dispatch, of_function

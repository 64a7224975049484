"""A hook that passes over the forward which its wrapper has announced, and that costs a compiled module nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from ddpdoctor.agent.inside.training.forward_hook import ForwardHook


def hooked() -> tuple[nn.Module, ForwardHook, list[Any]]:
    seen: list[Any] = []
    module = nn.Linear(2, 2)
    hook = ForwardHook(lambda _module, inputs: seen.append(inputs))
    module.register_forward_pre_hook(hook, prepend=True, with_kwargs=True)
    return module, hook, seen


def test_only_the_next_forward_is_passed_over() -> None:
    module, hook, seen = hooked()
    hook.skips_next = True
    module(torch.ones(1, 2))
    assert seen == []
    module(torch.ones(1, 2))
    assert len(seen) == 1


def test_a_compiled_module_is_not_compiled_again_where_the_hook_changes() -> None:
    module, hook, seen = hooked()
    counter = CompileCounter()
    compiled = torch.compile(module, backend=counter)
    for skips in (True, False, True):
        hook.skips_next = skips
        compiled(torch.ones(1, 2))
    assert counter.frame_count == 1
    assert seen == []

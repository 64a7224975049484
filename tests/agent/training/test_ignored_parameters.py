"""Parameters that DDP ignores: the line that says so, or the wrap, and not the optimizer's."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from ddpdoctor.agent.inside.trace_writer import user_line
from ddpdoctor.agent.inside.training import parameter_origin
from ddpdoctor.agent.inside.training.parameter_origin import Origins
from tests.agent.followed_rank import FollowedRank


def test_the_call_that_names_them_is_shown_before_the_wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrapper:
        """As much of DistributedDataParallel as is followed here."""

        @staticmethod
        def _set_params_and_buffers_to_ignore_for_model(module: Any, names: Any) -> None:
            module.ignored = names

        def register_comm_hook(self, *_args: Any) -> None: ...

    for owner, name in ((Optimizer, "add_param_group"), (nn.Module, "requires_grad_")):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # put back in the end
    monkeypatch.setattr(parameter_origin, "register_module_parameter_registration_hook", lambda _hook: None)
    module = nn.Linear(2, 2)
    followed = FollowedRank(tmp_path, nn.Linear(2, 2))
    origins = Origins(followed.trace)
    origins.install(Wrapper)
    torch.optim.SGD(module.parameters(), lr=0.1)
    assert origins.of(module.weight, "ignored") is None
    origins.wrapped_at = wrap = user_line()
    assert origins.of(module.weight, "ignored") == wrap
    Wrapper._set_params_and_buffers_to_ignore_for_model(module, ["weight"])
    frame = inspect.currentframe()
    after = frame.f_lineno if frame is not None else 0
    followed.trace.close()
    shown = origins.of(module.weight, "ignored")
    assert shown is not None
    assert (shown.line, module.ignored) == (after - 2, ["weight"])

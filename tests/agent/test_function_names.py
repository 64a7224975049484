"""Our own functions around PyTorch's stand in a stack under the names of those that they call."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from torch.nn.parallel import DistributedDataParallel

from ddpdoctor.agent.inside.calls import progress_counters
from ddpdoctor.agent.inside.user_code import pass_warnings_on


def test_the_forward_of_ddp_keeps_its_name_and_file(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = DistributedDataParallel.forward
    monkeypatch.setattr(DistributedDataParallel, "forward", forward)
    log: Any = SimpleNamespace(rank=SimpleNamespace(giving_up=nullcontext))
    hooks: Any = None

    progress_counters._count_forwards(log, hooks, progress_counters.TrainingLoop(hooks))

    ours = DistributedDataParallel.forward.__code__
    assert ours is not forward.__code__
    assert (ours.co_filename, ours.co_name) == (forward.__code__.co_filename, "forward")


def test_a_warning_names_the_line_of_the_user_and_not_ours() -> None:
    def deprecated() -> None:
        warnings.warn("use something else", FutureWarning, stacklevel=2)

    def ours() -> None:
        deprecated()

    pass_warnings_on(ours)
    with pytest.warns(FutureWarning) as caught:
        ours()
    assert caught[0].filename == __file__

"""How many functions of Python the agent calls in a step: what they cost is paid at every step of the job.

An audited step calls the same functions for forty parameters as for eighty, besides one hook for each gradient.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
import torch
from torch import nn

from ddpdoctor.agent.inside.schema.training_trace import segment_name
from tests.agent.followed_rank import FollowedRank

AGENT = "ddpdoctor/agent/inside/"
WARM_UP = 6  # audits, in which the agent finds out what does not change
MOST_CALLS = 22  # in a step that is not audited


class Layers(nn.Module):
    """Small linear layers, one after the other, and the buffers of a batch norm for each."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)) for _ in range(layers))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            batch = layer(batch)
        return batch


def agents_calls(folder: Path, layers: int, *, every: int = 1) -> Counter[str]:
    """How often each function of the agent is called in one step: an audited one, unless `every` is above `WARM_UP`."""
    folder.mkdir()
    module = Layers(layers)
    rank, batch = FollowedRank(folder, module, every=every), torch.ones(3, 4)
    optimizer = torch.optim.AdamW(module.parameters())
    zero = optimizer.zero_grad
    optimizer.zero_grad = lambda: zero(set_to_none=False)  # type: ignore[method-assign,misc] - gradients stay where they are
    for _ in range(WARM_UP):
        rank.step(optimizer, batch)
    called: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        where = frame.f_code
        if event == "call" and AGENT in where.co_filename:
            called[f"{Path(where.co_filename).stem}.{where.co_name}"] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        rank.step(optimizer, batch)
    finally:
        sys.setprofile(before)
    assert rank.trace.alive
    rank.trace.close()
    return called


@pytest.mark.skipif(sys.version_info < (3, 11), reason="lines are watched from 3.11 on, at other audits")
def test_no_function_of_the_agent_is_called_for_each_tensor_but_the_hook_on_a_gradient(tmp_path: Path) -> None:
    few, many = agents_calls(tmp_path / "few", 10), agents_calls(tmp_path / "many", 20)
    assert few["gradients.accumulated"] == 10 * 4
    assert many["gradients.accumulated"] == 20 * 4
    grown = {name: (few[name], count) for name, count in many.items() if count > few[name]}
    assert set(grown) == {"gradients.accumulated"}, grown


def test_a_step_that_is_not_audited_is_hardly_noticed(tmp_path: Path) -> None:
    called = agents_calls(tmp_path / "rank", 2, every=1000)
    assert called["counted_windows.after_step"] == 1
    assert called["step_observer.after"] == 0
    assert called.total() <= MOST_CALLS, called


def test_counting_a_step_leaves_the_trace_that_the_observers_leave(tmp_path: Path) -> None:
    """Two forwards a step, an optimizer without a backward, and an evaluation come in between."""

    def trace(folder: Path, *, counts: bool) -> tuple[str, int]:
        folder.mkdir()
        torch.manual_seed(0)
        module = Layers(2)
        rank, batch = FollowedRank(folder, module, every=5), torch.ones(3, 4)
        called = 0
        for name in ("forward", "before_step", "after_step"):
            own = getattr(rank.tracker.counted, name)

            def counted(*args: object, own: Callable[..., bool] = own) -> bool:
                nonlocal called
                done = counts and own(*args)
                called += done
                return done

            setattr(rank.tracker.counted, name, counted)
        optimizer = torch.optim.AdamW(module.parameters())
        for number in range(40):
            if number % 7 == 3:
                rank.tracker.forwards.outer(rank.model, [batch])
                rank.model(batch).sum().backward()
            if number % 11 == 5:
                module.eval()
                rank.model(batch)
                module.train()
            rank.step(optimizer, batch)
            if number % 9 == 4:
                rank.tracker.steps.before(optimizer, (), {})
                optimizer.step()
                rank.tracker.steps.after(optimizer, (), {})
        rank.tracker.close()
        rank.trace.close()
        return Path(rank.rank.path(segment_name(0))).read_text(), called

    alone, none = trace(tmp_path / "observed", counts=False)
    counted, some = trace(tmp_path / "counted", counts=True)
    assert none == 0
    assert some > 40
    assert counted == alone

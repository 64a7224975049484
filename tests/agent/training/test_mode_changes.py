"""The user's line that put a module into evaluation mode."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.trace_writer import TraceWriter
from ddpdoctor.agent.inside.training.mode_changes import ModeChanges


class ByValue(nn.Module):
    """One that cannot be a key."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByValue)

    __hash__ = None  # type: ignore[assignment]


@pytest.fixture
def changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModeChanges]:
    monkeypatch.setattr(nn.Module, "train", nn.Module.train)  # put back in the end
    followed = ModeChanges()
    rank = Rank(str(tmp_path))
    rank.place((), {})
    trace = TraceWriter(rank)
    followed.install(trace)
    yield followed
    assert trace.alive
    trace.close()


def line_here() -> int:
    return sys._getframe(1).f_lineno


def at(changes: ModeChanges, module: nn.Module) -> int | None:
    line = changes.line_of(module)
    return None if line is None else line.line


def test_the_last_call_that_reaches_a_module_counts(changes: ModeChanges) -> None:
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5))
    assert at(changes, net[0]) is None
    net.eval()
    whole = line_here() - 1
    assert (at(changes, net), at(changes, net[1])) == (whole, whole)
    net[1].train(False)
    part = line_here() - 1
    assert (at(changes, net[0]), at(changes, net[1])) == (whole, part)
    net.train()
    assert (at(changes, net[0]), at(changes, net[1])) == (None, None)
    net[0].training = False  # by hand: no call that tells


def test_other_modules_and_those_that_are_gone_do_not_count(changes: ModeChanges) -> None:
    net = nn.Sequential(nn.Dropout(0.5))
    nn.Sequential(nn.Dropout(0.5)).eval()
    other = nn.Dropout(0.5).eval()
    assert at(changes, net[0]) is None
    assert at(changes, other) is not None


def test_a_module_that_is_no_key_changes_its_mode_all_the_same(changes: ModeChanges) -> None:
    odd = ByValue().eval()
    assert not odd.training
    assert not ByValue().train(False).training
    assert changes.count == 2


def test_a_compiled_function_changes_modes_without_a_graph_break(changes: ModeChanges) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))

    def evaluates(x: torch.Tensor) -> torch.Tensor:
        net.eval()
        result: torch.Tensor = net(x)
        return result

    compiled = torch.compile(evaluates, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2, 2)), net(torch.ones(2, 2)))

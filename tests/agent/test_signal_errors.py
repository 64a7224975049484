"""An exception of a signal handler of the job reaches the job while the agent is at work, and nothing is left switched off."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import MagicMock, call

import pytest
import torch

from ddpdoctor.agent.inside.calls.collective_hooks import CollectiveHooks
from ddpdoctor.agent.inside.data.dataloader_hooks import LoaderEpoch
from ddpdoctor.agent.inside.overhead_budget import Budget
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.signal_errors import job_keeps
from ddpdoctor.agent.inside.tensors import readable_tensors
from ddpdoctor.agent.inside.tensors.tensor_digests import Digests
from ddpdoctor.agent.inside.trace_writer import TraceWriter
from ddpdoctor.agent.inside.training import integrity
from ddpdoctor.agent.inside.training.gradients import _Hooks


class OutOfTimeError(Exception):
    """What the job's handler raises."""


def raises(number: int, _frame: FrameType | None) -> None:
    raise OutOfTimeError(number)


def forgets(*given: object) -> None:
    del given
    raise OutOfTimeError


class Handlers:
    """Handlers of other forms."""

    def method(self, number: int, frame: FrameType | None) -> None:
        self.fails(number)

    def fails(self, number: int) -> None:
        raise OutOfTimeError(number)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        raise OutOfTimeError(number)


def with_name(_name: str, number: int, frame: FrameType | None) -> None:
    raises(number, frame)


HANDLERS: dict[str, Callable[..., object]] = {
    "function": raises,
    "forgetful": forgets,
    "method": Handlers().method,
    "object": Handlers(),
    "partial": functools.partial(with_name, "me"),
    "keyword": lambda *given, twice=1: raises(*given[:twice], *given[twice:]),
    "lambda": lambda *given: raises(*given),
}


@pytest.fixture
def rank(tmp_path: Path) -> Rank:
    here = Rank(str(tmp_path))
    here.place([], {"rank": 0, "world_size": 1})
    return here


@pytest.fixture(params=HANDLERS)
def handled(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, HANDLERS[request.param])
    yield
    signal.signal(signal.SIGUSR1, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def gave_up(rank: Rank) -> list[str]:
    return [path.read_text() for path in Path(rank.directory).glob("*.gave-up")]


@pytest.mark.usefixtures("handled")
def test_it_leaves_an_observer(rank: Rank) -> None:
    trace = TraceWriter(rank)
    with pytest.raises(OutOfTimeError):
        trace.observing(interrupt)()
    assert not trace.alive  # the observer did a part of its work only
    assert "a signal handler of the job raised OutOfTime" in gave_up(rank)[0]


@pytest.mark.usefixtures("handled")
def test_it_leaves_whatever_the_agent_gives_up(rank: Rank) -> None:
    with pytest.raises(OutOfTimeError), rank.giving_up("something"):
        interrupt()
    with pytest.raises(OutOfTimeError), job_keeps(Exception):
        interrupt()
    assert not gave_up(rank)


@pytest.mark.parametrize("base", [RuntimeError, TypeError, TimeoutError])
def test_one_of_a_type_that_the_agent_expects_is_not_taken_for_its_own(
    monkeypatch: pytest.MonkeyPatch, base: type[Exception]
) -> None:
    """PyTorch's own handler of SIGCHLD raises a RuntimeError where a worker of a data loader has died."""
    error = type("OfTheJobError", (base,), {})

    def dies(_number: int, _frame: FrameType | None) -> None:
        raise error

    before = signal.signal(signal.SIGUSR1, dies)
    monkeypatch.setattr(integrity, "VERSION", lambda _tensor: interrupt())
    monkeypatch.setattr(readable_tensors, "_is_in_storage", lambda _tensor: interrupt())
    epoch = LoaderEpoch(0, None, None, "")
    epoch.drawn.append(Interrupts())
    try:
        for looks in (
            lambda: integrity.versions([torch.ones(1)]),
            lambda: readable_tensors.stand_ins([torch.ones(1)]),
            epoch.consume,
        ):
            with pytest.raises(error):
                looks()
    finally:
        signal.signal(signal.SIGUSR1, before)


class Interrupts(list[int]):
    """A batch: a signal comes while its indices are read."""

    def __iter__(self) -> Iterator[int]:
        interrupt()
        return iter(())


def while_handling_an_error(function: Callable[[], object]) -> None:
    try:
        int("one")
    except ValueError:
        function()


def test_a_call_that_an_alarm_keeps_from_being_made_does_not_stay_open(rank: Rank) -> None:
    """And calls after it are recorded: nothing stays noted as being inside one of ours."""
    raises_once = signal.signal(signal.SIGUSR1, raises)
    made: list[str] = []
    c10d: Any = types.ModuleType("c10d")
    c10d.all_reduce = lambda tensor, op=None, group=None: made.append("all_reduce")
    c10d.new_group = lambda ranks=None: made.append("new_group")
    c10d._get_default_group = lambda: types.SimpleNamespace(group_name="0")
    hooks = CollectiveHooks(c10d)
    log: Any = MagicMock()
    log.rank.is_here = True
    log.ring.begin_collective.return_value = 7
    hooks.log = log
    hooks._next = lambda _group: 1  # type: ignore[method-assign]
    hooks._group = lambda *_: 0  # type: ignore[method-assign]
    log.handling.side_effect = lambda *_: interrupt()
    try:
        with pytest.raises(OutOfTimeError):
            while_handling_an_error(lambda: c10d.all_reduce(torch.ones(1)))
    finally:
        signal.signal(signal.SIGUSR1, raises_once)
    assert not made
    assert log.ring.end.mock_calls == [call(7)]
    c10d.all_reduce(torch.ones(1))
    assert made == ["all_reduce"]
    assert log.ring.begin_collective.call_count == 2


def test_an_error_of_the_agent_or_of_an_object_of_the_job_stays_there(rank: Rank) -> None:
    """The twin: a frame is passed on there, too, and no signal came."""

    def looks(place: int, frame: FrameType | None) -> None:
        raise ValueError(place, frame)

    trace = TraceWriter(rank)
    trace.observing(lambda: looks(1, sys._getframe(1)))()
    assert not trace.alive
    assert "ValueError" in gave_up(rank)[0]
    with rank.giving_up("something"), job_keeps(ValueError):
        raise ValueError


class _AtTheDoor:
    """Raises in the first bytecode of `Budget.__exit__`, as a signal may, or in the first of what it calls."""

    def __init__(self, name: str) -> None:
        self._name, self._done = name, False

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Any:
        is_there = frame.f_code.co_name == self._name and "overhead_budget" in frame.f_code.co_filename
        if event == "call" and is_there and not self._done:
            self._done = True
            interrupt()


@pytest.mark.parametrize("place", ["__enter__", "__exit__", "_leave"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_autograd_autocast_and_the_collector_are_on_again(rank: Rank, place: str, blocks: int) -> None:
    before = signal.signal(signal.SIGUSR1, raises)
    trace = TraceWriter(rank)
    budget = Budget(trace, 1, 0.005)

    def audits() -> None:
        with contextlib.ExitStack() as entered:
            for _ in range(blocks - 1):
                entered.enter_context(budget)
            sys.settrace(_AtTheDoor(place))
            with budget:
                assert not torch.is_autocast_enabled("cpu")

    with torch.autocast("cpu"):
        with pytest.raises(OutOfTimeError):
            trace.observing(audits)()
        sys.settrace(None)
        signal.signal(signal.SIGUSR1, before)
        assert torch.is_autocast_enabled("cpu")
    assert torch.is_grad_enabled()
    assert gc.isenabled()
    with budget:
        assert not torch.is_grad_enabled()
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.parametrize("backwards", [0, 1])
def test_a_hook_on_a_gradient_keeps_it_until_backward_returns(
    rank: Rank, monkeypatch: pytest.MonkeyPatch, backwards: int
) -> None:
    """Backward ends all the same, so that a reduction ends: without the agent no handler runs before."""
    before = signal.signal(signal.SIGUSR1, raises)
    trace = TraceWriter(rank)
    hooks = _Hooks(trace, Budget(trace, 1, 0.005), Digests(trace))
    parameters = [torch.ones(3, requires_grad=True) for _ in range(2)]
    hooks.follow(parameters)
    hooks.begin(again=False)
    copy = torch.Tensor.copy_
    calls: list[object] = []

    def interrupted(self: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        calls.append(source)
        if len(calls) == 1:
            interrupt()
        return copy(self, source)

    monkeypatch.setattr(torch.Tensor, "copy_", interrupted)
    trace.backwards = backwards
    try:
        with contextlib.nullcontext() if backwards else pytest.raises(OutOfTimeError):
            (parameters[0] * parameters[1]).sum().backward()
    finally:
        signal.signal(signal.SIGUSR1, before)
    if backwards:
        assert all(parameter.grad is not None for parameter in parameters)
        with pytest.raises(OutOfTimeError):
            trace.raise_held()
    trace.raise_held()
    assert not trace.alive


def test_a_gradient_of_which_no_copy_can_be_made_does_not_leave_the_hook(
    rank: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no handler's error: the comparison ends with the reason, and the job's backward does not."""
    trace = TraceWriter(rank)
    hooks = _Hooks(trace, Budget(trace, 1, 0.005), Digests(trace))
    parameter = torch.ones(3, requires_grad=True)
    hooks.follow([parameter])
    hooks.begin(again=False)

    def refuses(*_: object) -> torch.Tensor:
        raise TypeError("no aten.copy_.default")

    monkeypatch.setattr(torch.Tensor, "copy_", refuses)
    monkeypatch.setattr(hooks, "_take", refuses)
    trace.backwards = 1
    parameter.sum().backward()
    assert parameter.grad is not None
    trace.raise_held()


def test_a_handler_that_enters_a_block_finds_the_lock_free(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs a handler between any two of its own statements: here right after the last call before the lock."""
    budget = Budget(TraceWriter(rank), 1, 0.005)
    held: list[bool] = []
    enabled = gc.isenabled

    def looks() -> bool:
        held.append(budget._lock.locked())
        return enabled()

    monkeypatch.setattr(gc, "isenabled", looks)
    with budget:
        pass
    assert held == [False]

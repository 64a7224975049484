"""A rank that ends itself ends its trace in order, and never waits for the agent that a signal has interrupted."""

from __future__ import annotations

import contextlib
import gc
import os
import threading

import pytest

from ddpdoctor.agent.inside import verify_sync_feature
from ddpdoctor.agent.inside.overhead_budget import Budget
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.trace_writer import TraceWriter
from ddpdoctor.agent.inside.verify_sync_feature import _after_a_look, _close_at_os_exit


class Gone(BaseException):
    """The process has ended."""


class FakeTracking:
    """Counts how often the trace was ended."""

    waits = False

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def gone(_status: int) -> None:
    raise Gone


@pytest.fixture
def rank(tmp_path: object) -> Rank:
    here = Rank(str(tmp_path))
    here.place([], {"rank": 0, "world_size": 1})
    return here


@pytest.fixture
def tracking(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> FakeTracking:
    monkeypatch.setattr(os, "_exit", gone)
    fake = FakeTracking()
    _close_at_os_exit(rank, fake)  # type: ignore[arg-type]
    return fake


def test_a_rank_that_ends_in_its_own_code_ends_its_trace(tracking: FakeTracking) -> None:
    with contextlib.suppress(Gone):
        os._exit(0)
    assert tracking.closed == 1


def test_a_handler_that_ends_the_rank_while_the_agent_holds_its_lock_does_not_wait_for_it(
    rank: Rank, tracking: FakeTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = Budget(TraceWriter(rank), 1, 0.005)
    monkeypatch.setattr(gc, "disable", lambda: os._exit(0))  # what is called while the lock is held
    with contextlib.suppress(Gone), budget:
        pass
    assert tracking.closed == 0


def test_a_handler_that_ends_the_rank_in_an_observer_leaves_the_trace_as_it_is(
    rank: Rank, tracking: FakeTracking
) -> None:
    with contextlib.suppress(Gone):
        TraceWriter(rank).observing(lambda: os._exit(0))()
    assert tracking.closed == 0


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens when a rank leaves its process group: the agent looks, the group is destroyed."""
    done: list[str] = []
    monkeypatch.setattr(verify_sync_feature, "_leaves", lambda: done.append("look"))
    monkeypatch.setattr(
        verify_sync_feature, "destroy", _after_a_look(lambda _: done.append("destroyed")), raising=False
    )
    return done


def destroy() -> None:
    verify_sync_feature.destroy()  # type: ignore[attr-defined]


def test_a_rank_that_leaves_the_group_in_its_own_code_is_looked_at(looks: list[str]) -> None:
    destroy()
    assert looks == ["look", "destroyed"]


def test_a_handler_that_leaves_the_group_while_the_agent_holds_its_lock_does_not_wait_for_it(
    rank: Rank, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = Budget(TraceWriter(rank), 1, 0.005)
    monkeypatch.setattr(gc, "disable", destroy)  # what is called while the lock is held
    with budget:
        pass
    assert looks == ["destroyed"]


def test_a_handler_that_leaves_the_group_in_an_observer_is_not_looked_at(rank: Rank, looks: list[str]) -> None:
    TraceWriter(rank).observing(destroy)()
    assert looks == ["destroyed"]


def test_another_thread_that_leaves_the_group_is_not_looked_at(looks: list[str]) -> None:
    thread = threading.Thread(target=destroy)
    thread.start()
    thread.join(10)
    assert looks == ["destroyed"]

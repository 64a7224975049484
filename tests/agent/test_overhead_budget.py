"""How often a rank audits: what a run costs in the end, that audits are spread over it, and that no collection meets one."""

from __future__ import annotations

import gc
import threading
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ddpdoctor.agent.inside import overhead_budget
from ddpdoctor.agent.inside.overhead_budget import FIRST_SECONDS, Budget
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.trace_writer import TraceWriter

SHARE = 0.005


class _Run:
    """A run whose steps and audits take known times; `audits` holds the second at which each audit was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.audits: list[float] = []
        self.trace: Any = SimpleNamespace(spent=0.0, interrupted=[])
        self._clock = 0
        monkeypatch.setattr(overhead_budget, "time", SimpleNamespace(perf_counter=lambda: self.now))
        self.budget = Budget(self.trace, 0, SHARE)

    def run(self, seconds: float, *, step: float, audit: float, other: float = 0.0) -> None:
        """So many seconds, with steps of `step` seconds, audits of `audit` and observers of `other` at each step."""
        end = self.now + seconds
        while self.now < end:
            self._clock += 1
            audited = self.budget.take(self._clock)
            if audited:
                self.audits.append(self.now)
            took = other + audited * audit
            self.now += step + took
            self.trace.spent += took
            self.budget.adapt(audited=audited)


@pytest.mark.parametrize(("step", "audit"), [(0.008, 0.001), (0.06, 0.025), (0.5, 0.1)])
def test_audits_take_their_share_of_a_long_run_and_never_more_than_double_of_a_minute(
    monkeypatch: pytest.MonkeyPatch, step: float, audit: float
) -> None:
    """The first minutes learn what an audit costs; from then on no minute pays for those before it."""
    job = _Run(monkeypatch)

    job.run(600, step=step, audit=audit)

    assert job.trace.spent <= FIRST_SECONDS + SHARE * job.now + 2 * audit
    assert job.trace.spent >= SHARE * job.now / 4
    late = [second for second in job.audits if second > 200]
    for begin in range(200, int(job.now) - 60, 7):
        in_a_minute = sum(begin <= second < begin + 60 for second in late)
        assert in_a_minute * audit <= 2 * SHARE * 60 + audit


def test_audits_of_a_run_whose_steps_become_slower_are_spread_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fast first part has not spent is not spent at once when the steps take longer."""
    job = _Run(monkeypatch)

    job.run(300, step=0.01, audit=0.1)
    job.run(1200, step=1.0, audit=0.1)

    slow = [second for second in job.audits if second > 400]
    assert len(slow) >= 20
    assert min(later - earlier for earlier, later in pairwise(slow)) > 5


def test_what_other_observers_cost_is_taken_off_the_share_up_to_its_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that are not audited have their price, too."""
    job = _Run(monkeypatch)

    job.run(300, step=0.01, audit=0.002, other=0.00004)

    audits = len(job.audits) * 0.002
    assert SHARE * job.now / 8 <= audits <= FIRST_SECONDS + SHARE * job.now / 2 + 0.004


def test_no_garbage_is_collected_during_an_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection looks through all objects of the job; one that was switched off stays so."""
    budget = _Run(monkeypatch).budget

    with budget:
        inside = gc.isenabled()
    after = gc.isenabled()
    gc.disable()
    try:
        with budget:
            pass
        kept = gc.isenabled()
    finally:
        gc.enable()

    assert (inside, after, kept) == (False, True, False)


def test_blocks_may_be_nested_and_give_back_what_was_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook of the job may run inside a block; autograd that stayed off would end the job."""
    budget = _Run(monkeypatch).budget

    with torch.autocast("cpu"):
        with budget:
            with budget:
                inner = (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), gc.isenabled())
            between = (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), gc.isenabled())
        after = (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), gc.isenabled())

    assert inner == between == (False, False, False)
    assert after == (True, True, True)


def test_threads_that_are_in_blocks_at_once_keep_their_own_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon thread evaluates the model under `no_grad` while the main thread trains."""
    budget = _Run(monkeypatch).budget
    entered, leaves = threading.Event(), threading.Event()

    def evaluates() -> None:
        with torch.no_grad(), budget:
            entered.set()
            leaves.wait(10)

    thread = threading.Thread(target=evaluates)
    with budget:
        thread.start()
        assert entered.wait(10)
    between = (torch.is_grad_enabled(), gc.isenabled())
    leaves.set()
    thread.join(10)

    assert between == (True, False)
    assert (torch.is_grad_enabled(), gc.isenabled()) == (True, True)


@pytest.mark.parametrize("place", ["_set_grad_enabled", "is_autocast_enabled"])
def test_an_exception_of_a_signal_handler_at_the_door_leaves_autograd_and_the_collector_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    rank = Rank(str(tmp_path))
    rank.place([], {"rank": 0, "world_size": 1})
    budget = Budget(TraceWriter(rank), 1, 0.005)
    owner: Any = overhead_budget if place == "_set_grad_enabled" else torch
    original, calls = getattr(owner, place), list[object]()

    def interrupted(*args: Any) -> object:
        result = original(*args)
        calls.append(args)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, place, interrupted)
    with pytest.raises(KeyboardInterrupt), budget:
        pytest.fail("the block was entered")
    monkeypatch.undo()
    assert torch.is_grad_enabled()
    assert gc.isenabled()
    with budget:
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    assert gc.isenabled()


def test_a_step_that_stands_for_others_counts_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Observers of one step in 16 are timed: they leave the audits as little as if all were."""
    intervals = []
    for stands_for in (1, 16):
        job = _Run(monkeypatch)
        for _ in range(160 // stands_for):
            job.now += 0.1 * stands_for
            job.trace.spent += 0.0005
            job.budget.adapt(audited=False, stands_for=stands_for)
        job.budget.interval = 1
        job.trace.spent += FIRST_SECONDS + 0.75 * SHARE * job.now
        job.budget.adapt(audited=True)
        intervals.append(job.budget.interval)
    assert intervals == [2, 2]

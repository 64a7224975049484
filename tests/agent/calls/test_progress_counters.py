"""Numbers of data sets: those of a job that makes one per fold must not depend on where memory was free."""

from __future__ import annotations

import inspect

from ddpdoctor.agent.inside.calls.progress_counters import ObjectNumbers, _arguments


class DataSet:
    """Any."""


def test_a_data_set_has_one_number_and_the_next_one_at_its_address_another() -> None:
    numbers = ObjectNumbers()
    kept = DataSet()
    assert [numbers.of(kept), numbers.of(kept)] == [1, 1]
    fold = DataSet()
    address = id(fold)
    seen = [numbers.of(fold)]
    addresses = {address}
    for _ in range(20):
        del fold
        fold = DataSet()
        addresses.add(id(fold))
        seen.append(numbers.of(fold))
    assert seen == list(range(2, 23))
    assert len(addresses) < 21, "no address was used twice, so nothing was tested"
    assert numbers.of(kept) == 1
    assert len(numbers._numbers) == 2


def test_what_nobody_can_refer_to_weakly_has_a_number_too() -> None:
    numbers = ObjectNumbers()
    data_set = [1, 2]
    assert [numbers.of(data_set), numbers.of(data_set), numbers.of([3])] == [1, 1, 2]


def test_a_call_that_does_not_fit_is_left_to_the_callee_to_report() -> None:
    """`DDP(model, wrong=1)` is the user's mistake, and no failure of the agent."""
    signature = inspect.signature(lambda self, module: None)
    assert _arguments(signature, 1, module=2) == {"self": 1, "module": 2}
    assert _arguments(signature, 1, module=2, wrong=3) is None

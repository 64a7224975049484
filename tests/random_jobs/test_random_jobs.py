"""Random jobs: one cause is one headline with the right code and ranks, and healthy jobs get silence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.random_jobs.__main__ import findings, wrong
from tests.random_jobs.cases import FAULTS, Case, case
from tests.random_jobs.torchrun_log import torchrun_log

AT_LEAST = 0.98  # of sets: what some dumps hold, above all those of active entries alone, does not decide


def cases(fault: str, seeds: range) -> Iterator[Case]:
    """The cases of one fault that have an effect."""
    for seed in seeds:
        one = case(seed, fault)
        if one is not None:
            yield one


@pytest.mark.parametrize("fault", FAULTS)
def test_one_cause_is_one_headline(fault: str) -> None:
    verdicts = {one.told: wrong(one, findings(one)) for one in cases(fault, range(7))}
    assert not {told: verdict for told, verdict in verdicts.items() if verdict}
    assert verdicts


@pytest.mark.parametrize("fault", ["frozen", "dead", "blind", "stuck", "shape"])
def test_the_log_of_the_job_changes_nothing(fault: str) -> None:
    """Ranks whose watchdogs gave up, and those that torchrun ended, are sufferers."""
    for one in cases(fault, range(4)):
        assert not wrong(one, findings(one, torchrun_log(one))), one.told


@pytest.mark.slow
def test_nearly_all_of_many_jobs_are_judged_right() -> None:
    verdicts = {one.told: wrong(one, findings(one)) for fault in FAULTS for one in cases(fault, range(100, 112))}
    wrongs = {told: verdict for told, verdict in verdicts.items() if verdict}
    assert len(wrongs) <= (1 - AT_LEAST) * len(verdicts), wrongs
    assert not any(told.startswith(("finished", "moving")) for told in wrongs)

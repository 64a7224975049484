"""Random jobs: one cause is one headline with the right code and ranks, and healthy jobs get silence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.random_jobs.__main__ import findings, report_of, wrong
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


@pytest.mark.parametrize(("fault", "seed"), [("blind", 34), ("two blind", 9), ("two blind", 7347)])
def test_active_entries_of_groups_with_hashed_names_are_judged_by_the_numbers_that_peers_tell(
    fault: str, seed: int
) -> None:
    """A rank that is through with a group shows no entry of it, and its table of statuses has numbers and no names."""
    one = case(seed, fault)
    assert one is not None
    assert "hashes" in one.told
    assert one.recorder.active
    assert not wrong(one, findings(one))


@pytest.mark.parametrize("seed", [131, 351])
def test_the_half_that_lacks_its_partner_is_named_where_the_counts_tell_which_it_is(seed: int) -> None:
    """The numbers of the batches tell it, or NCCL's count of their halves."""
    one = case(seed, "left out")
    assert one is not None
    (finding,) = findings(one)
    assert (finding.code, finding.ranks) == ("DDP313", (8,))


@pytest.mark.parametrize(
    ("fault", "seed"), [("operation", 6), ("operation", 12), ("stuck link", 11), ("stuck link", 16)]
)
def test_a_ring_smaller_than_what_is_outstanding_names_nobody(fault: str, seed: int) -> None:
    one = case(seed, fault)
    assert one is not None
    report = report_of(replace(one, recorder=replace(one.recorder, ring=8)))
    assert not report.findings
    (said,) = report.undecided
    assert "have lost calls that these ranks wait in" in said
    assert said.endswith("start the job with TORCH_FR_BUFFER_SIZE=20000")


def test_a_small_ring_of_a_healthy_job_is_silent() -> None:
    for one in (*cases("finished", range(4)), *cases("moving", range(4))):
        report = report_of(replace(one, recorder=replace(one.recorder, ring=8)))
        assert (report.findings, report.undecided) == ((), ()), one.told


@pytest.mark.slow
def test_nearly_all_of_many_jobs_are_judged_right() -> None:
    verdicts = {one.told: wrong(one, findings(one)) for fault in FAULTS for one in cases(fault, range(100, 112))}
    wrongs = {told: verdict for told, verdict in verdicts.items() if verdict}
    assert len(wrongs) <= (1 - AT_LEAST) * len(verdicts), wrongs
    assert not any(told.startswith(("finished", "moving")) for told in wrongs)

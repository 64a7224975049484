"""What is not judged: clocks of two hosts, where a rank that seems late may only be ahead of the time, and a short job."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.model import Skipped
from tests.paces import steps, usual


def test_ranks_of_different_hosts_are_not_compared() -> None:
    evidence = steps(usual, lambda _: {"batch": 30})
    first, second = evidence.ranks
    report = diagnose(replace(evidence, ranks=(first, replace(second, host="host-b"))), select=["DDP601"])
    (outcome,) = report.outcomes
    assert isinstance(outcome, Skipped)
    assert outcome.reason == "no host has two ranks whose recorders hold 20 rounds of the same collectives"


def test_a_slow_rank_is_named_on_its_own_host() -> None:
    evidence = steps(usual, usual, usual, lambda _: {"batch": 30})
    hosts = ("host-a", "host-a", "host-b", "host-b")
    ranks = tuple(replace(facts, host=host) for facts, host in zip(evidence.ranks, hosts, strict=True))
    (finding,) = diagnose(replace(evidence, ranks=ranks)).findings
    assert (finding.code, finding.ranks) == ("DDP601", (3,))


def test_a_job_of_three_seconds_need_not_load_faster() -> None:
    (outcome,) = diagnose(steps(*(lambda _: {"input": 200},) * 2, count=15), select=["DDP602"]).outcomes
    assert isinstance(outcome, Skipped)

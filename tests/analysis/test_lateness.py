"""What is not judged: clocks of two hosts, where a rank that seems late may only be ahead of the time, and a short job."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.process import Stall
from tests.paces import steps, usual


def test_ranks_of_different_hosts_are_not_compared() -> None:
    evidence = steps(usual, lambda _: {"batch": 30})
    first, second = evidence.ranks
    assert diagnose(evidence).findings
    assert not diagnose(replace(evidence, ranks=(first, replace(second, host="host-b")))).findings


def test_a_slow_rank_is_named_on_its_own_host() -> None:
    evidence = steps(usual, usual, usual, lambda _: {"batch": 30})
    hosts = ("host-a", "host-a", "host-b", "host-b")
    ranks = tuple(replace(facts, host=host) for facts, host in zip(evidence.ranks, hosts, strict=True))
    (finding,) = diagnose(replace(evidence, ranks=ranks)).findings
    assert (finding.code, finding.ranks) == ("DDP601", (3,))


def test_a_job_of_three_seconds_need_not_load_faster() -> None:
    assert not diagnose(steps(*(lambda _: {"input": 200},) * 2, count=15)).findings


def test_of_a_job_that_stands_still_its_pace_is_not_said() -> None:
    stall = Stall(began_at=None, seconds=60.0)
    crawling = replace(steps(usual, lambda _: {"input": 300}, count=60), job=(stall,))
    assert not diagnose(crawling, select=["DDP6"]).findings

"""Ranks that make steps of their own and average their weights."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.audited_steps import Averaged
from tests.analysis.replicas.audited_jobs import healthy, job, step


def local(*, equal: bool = True) -> Evidence:
    """Steps of the ranks' own after step 0, averaged before step 2."""
    averaged = Averaged(made=1, local=0)
    sick = [step(0, "start", "alone"), step(2, "a1" if equal else "bad", "alone", averaging=averaged)]
    evidence = job(sick)
    ranks = tuple(
        replace(facts, facts=(replace(facts.facts[0], steps=(healthy()[0], step(2, "a1", "a2", averaging=averaged))),))
        if facts.rank != 1
        else facts
        for facts in evidence.ranks
    )
    return replace(evidence, ranks=ranks)


def test_steps_between_averagings_are_the_ranks_own() -> None:
    assert diagnose(local()).findings == ()


def test_a_tensor_that_averaging_leaves_out() -> None:
    first = diagnose(local(equal=False)).findings[0]
    assert (first.code, first.ranks, first.measured["step"]) == ("DDP503", (1,), 2)
    assert "right after the weights were averaged" in first.message

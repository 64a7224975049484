"""Ranks that make steps of their own and average their weights."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.audited_steps import Averaged
from ddpdoctor.evidence.training_trace import Track
from tests.analysis.replicas.audited_jobs import GRADIENT, all_with, healthy, job, step


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


@pytest.mark.parametrize("reduced", [True, False])
def test_steps_before_the_first_averaging_are_compared_while_gradients_are_reduced(reduced: bool) -> None:
    """PostLocalSGD reduces gradients in its first steps. Weights that differ there were written, and averaging hides it later."""
    own = {"gradients": {"w": replace(GRADIENT, digest="own")}}
    averaged = step(2, "a2", "a2", averaging=Averaged(made=1, local=0))
    sick = [
        step(0, "start", "a0", **({} if reduced else own)),
        step(1, "bad", "alone", integrity={"begin": 1, "end": 1}),
        averaged,
    ]
    findings = diagnose(all_with(sick, [step(0, "start", "a0"), step(1, "a0", "a1"), averaged])).findings
    assert [(one.code, one.ranks, one.measured["step"]) for one in findings[:1]] == [("DDP509", (1,), 1)] * reduced


def test_ranks_that_average_in_changing_groups_are_nowhere_known_to_be_equal() -> None:
    """Inside a node, and then between the nodes' leaders; or with another partner each time."""
    in_groups = Averaged(made=1, local=0, members=frozenset({0, 1}))
    assert diagnose(each_with(local(equal=False), in_groups)).findings == ()


def test_members_of_the_group_that_averages_are_compared_with_each_other_alone() -> None:
    """Here ranks 0 and 1 are one group, and rank 2 and the others another."""
    in_group = Averaged(made=1, local=0, members=frozenset({0, 1}))
    for equal in (True, False):
        evidence = each_with(local(equal=equal), in_group)
        ranks = (replace(one, facts=tuple(_of_group(fact, one.rank) for fact in one.facts)) for one in evidence.ranks)
        found = diagnose(replace(evidence, ranks=tuple(ranks))).findings
        assert [(one.code, one.measured["step"]) for one in found[:1]] == ([] if equal else [("DDP503", 2)])


def _of_group(fact: object, rank: int) -> object:
    return replace(fact, replicas=frozenset({0, 1} if rank < 2 else {rank})) if isinstance(fact, Track) else fact


def each_with(evidence: Evidence, averaging: Averaged) -> Evidence:
    """The same job with averagings like this one."""
    ranks = tuple(replace(one, facts=tuple(_with(fact, averaging) for fact in one.facts)) for one in evidence.ranks)
    return replace(evidence, ranks=ranks)


def _with(fact: object, averaging: Averaged) -> object:
    if not isinstance(fact, Track):
        return fact
    return replace(fact, steps=tuple(replace(one, averaging=one.averaging and averaging) for one in fact.steps))


def test_a_tensor_that_averaging_leaves_out() -> None:
    first = diagnose(local(equal=False)).findings[0]
    assert (first.code, first.ranks, first.measured["step"]) == ("DDP503", (1,), 2)
    assert "right after the weights were averaged" in first.message

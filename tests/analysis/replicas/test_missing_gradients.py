"""Gradients that DDP has reduced, and that some ranks do not have when the optimizer steps."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.audited_steps import Gradient, StepSeen
from tests.analysis.replicas.audited_jobs import all_with, step

REDUCED = Gradient(digest="g", reduced=1.5, local=1.0, count=1, standing="reduced")
OTHER = Gradient(digest="h", reduced=1.4, local=2.0, count=1, standing="reduced")


def one_step(after: str, *names: str, parameters: str = "2") -> list[StepSeen]:
    """A step with the gradients `names`, and an optimizer of so many parameters."""
    gradients = {name: gradient for name, gradient in (("w", REDUCED), ("v", OTHER)) if name in names}
    return [replace(step(0, "start", after, gradients=gradients), settings={"number of parameters": parameters})]


def test_a_rank_whose_optimizer_steps_fewer_parameters_is_named() -> None:
    found = diagnose(all_with(one_step("bad", "v", parameters="1"), one_step("a0", "w", "v")))
    assert "DDP504" not in {one.code for one in found.findings}
    first = found.findings[0]
    assert (first.code, first.ranks) == ("DDP506", (1,))
    assert "number of parameters is 2 on ranks 0,2 and 1 on rank 1" in first.message


def test_a_rank_that_drops_a_reduced_gradient_has_changed_it() -> None:
    first = diagnose(all_with(one_step("bad", "v"), one_step("a0", "w", "v"))).findings[0]
    assert (first.code, first.ranks, first.measured["tensors"]) == ("DDP505", (1,), ["w"])


def test_a_gradient_that_the_others_did_not_reduce_is_not_dropped() -> None:
    local = {"w": replace(REDUCED, reduced=1.0), "v": OTHER}
    others = [replace(one, gradients=local) for one in one_step("a0", "w", "v")]
    assert diagnose(all_with(one_step("bad", "v"), others, nproc=2)).findings[0].code == "DDP504"


def test_a_clipped_gradient_of_a_step_in_no_sync_is_not_dropped() -> None:
    """A layer that rank 1 does not use: it never had a gradient, and nothing was reduced."""
    sick, others = (
        [replace(one, synchronised=False) for one in steps]
        for steps in (one_step("bad", "v"), one_step("a0", "w", "v"))
    )
    found = diagnose(all_with(sick, others, nproc=2)).findings
    assert "DDP505" not in {one.code for one in found}
    assert (found[0].code, found[0].measured["cause"]) == ("DDP504", "no_sync")


def test_a_rank_whose_last_forward_ran_under_no_sync_is_named_alone() -> None:
    alone = {
        "w": replace(REDUCED, digest="own", reduced=0.3, local=0.3),
        "v": replace(OTHER, digest="its", reduced=4.0, local=4.0),
    }
    sick = [replace(one, gradients=alone, synchronised=False) for one in one_step("bad", "w", "v")]
    others = [replace(one, synchronised=True) for one in one_step("a0", "w", "v")]
    first = diagnose(all_with(sick, others)).findings[0]
    assert (first.code, first.ranks, first.measured["cause"]) == ("DDP504", (1,), "no_sync")
    assert "keep their local gradients on rank 1" in first.message


def test_the_same_parameters_on_all_ranks_are_healthy() -> None:
    assert not diagnose(all_with(one_step("a0", "w"), one_step("a0", "w"))).findings

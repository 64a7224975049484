"""The outputs of one batch on all ranks."""

from __future__ import annotations

from typing import Any

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.training_trace import ProbeSeen
from tests.analysis.replicas.audited_jobs import healthy, job


def probe(digest: str, again: str = "", **fields: Any) -> ProbeSeen:
    outputs = {"a (Linear)": "1", "b (Linear)": digest, "the model (Net)": digest}
    repeated = {**outputs, "b (Linear)": again or digest}
    return ProbeSeen(
        **{"step": 2, "forwards": 3, "weights": "w", "input": "x", "outputs": outputs, "again": repeated, **fields}
    )


def test_a_forward_with_another_result() -> None:
    probes = {0: probe("2"), 1: probe("3", settings={"threads": "8"}), 2: probe("2", settings={"threads": "1"})}
    first = diagnose(job(healthy(), probes=probes)).findings[0]
    assert (first.code, first.ranks, first.measured["tensors"]) == ("DDP527", (1,), ["b (Linear)"])
    assert "threads" in first.message


def test_a_forward_that_does_not_repeat_itself() -> None:
    first = diagnose(job(healthy(), probes={0: probe("2"), 1: probe("2", again="4"), 2: probe("2")})).findings[0]
    assert (first.code, first.ranks) == ("DDP527", (1,))


def test_probes_of_other_weights_or_batches_are_not_compared() -> None:
    for other in ({"weights": "v"}, {"input": "y"}):
        assert diagnose(job(healthy(), probes={0: probe("2"), 1: probe("3", **other), 2: probe("2")})).findings == ()

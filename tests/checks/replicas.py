"""Four replicas that differ, for the rules which compare them."""

from __future__ import annotations

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.replicas import Element, Replicas, Side, ValueDifference
from tests.checks import job


def replicas(*, stepped: bool, **found) -> Evidence:
    return job(Replicas(ranks=(0, 1, 2, 3), tensors=18, bytes=72, method="xxh3", stepped=stepped, **found))


def rank_1_differs(role: str, name: str, another: str) -> tuple[ValueDifference, ...]:
    """One element of `name`, and something in `another`."""
    return (
        ValueDifference(
            role=role,
            name=name,
            sides=(Side(ranks=(0, 2, 3), says="0.0131"), Side(ranks=(1,), says="0.0127")),
            element=Element(index=(5, 2), values=("0.0131", "0.0127"), difference=0.0004),
            extent="1 of 128 elements",
        ),
        ValueDifference(role=role, name=another, sides=(Side(ranks=(0, 2, 3)), Side(ranks=(1,)))),
    )


def sign_of_zero(role: str, name: str) -> tuple[ValueDifference, ...]:
    """Two ranks hold 0, two -0."""
    return (
        ValueDifference(
            role=role,
            name=name,
            sides=(Side(ranks=(0, 1), says="0"), Side(ranks=(2, 3), says="-0")),
            element=Element(index=(5, 2), values=("0", "-0"), difference=0.0),
            kind="sign of zero",
        ),
    )

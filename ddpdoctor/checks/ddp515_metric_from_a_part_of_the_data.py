"""An evaluation over sharded data whose result no collective brings together: each rank knows the metric of its part."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.data import PartialMetric
from ddpdoctor.messages.divergence import finding
from ddpdoctor.messages.replicas import sides_sentence
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP515",
    name="metric-from-a-part-of-the-data",
    summary="ranks evaluate different data and never combine their results",
    severity=Severity.WARN,
    shown_by="ranks print different metrics for one epoch, and no all_reduce combines them: `ddpdoctor verify-sync`",
    remedy="all_reduce sums and counts (not means) over the ranks before dividing, or evaluate everything on one rank",
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first evaluation over different data with no collective after it."""
    for found in divergences.of(PartialMetric):
        message = (
            f"before step {found.step}, the ranks evaluate different samples ({sides_sentence(found.sides)}) and call no "
            "collective before training continues"
        )
        yield finding(RULE, found, message, note="evaluates its shard")

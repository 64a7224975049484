"""Ranks run different Python versions.

Pickles and object collectives cross between ranks that run different Pythons.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.rank_differences import difference
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import PythonInstall
from ddpdoctor.messages.majority import values_by_rank
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP101",
    name="python-versions-differ",
    summary="ranks run different Python versions",
    severity=Severity.FAIL,
    remedy="start every rank from the same image or environment, so that `python --version` prints the same everywhere",
    background=True,
)


def check(pythons: PerRank[PythonInstall]) -> Iterator[Finding]:
    """One finding when the minor versions differ; patch releases read each other's pickles."""
    minor = difference((entry.rank, ".".join(entry.value.version.split(".")[:2])) for entry in pythons)
    if minor is not None:
        yield RULE.finding(f"Python is {values_by_rank(minor)}", ranks=minor.minority, versions=minor.values)

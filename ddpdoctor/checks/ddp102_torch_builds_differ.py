"""Ranks import different builds of torch.

torch may change the order and the format of collectives between builds.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.rank_differences import difference
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.messages.majority import values_by_rank
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP102",
    name="torch-builds-differ",
    summary="ranks import different builds of torch",
    severity=Severity.FAIL,
    remedy="install the same torch everywhere: `pip install torch==VERSION` from one index, or one image for all nodes",
    background=True,
)


def check(torches: PerRank[TorchBuild]) -> Iterator[Finding]:
    """One finding when version or git commit differ."""
    found = difference((entry.rank, _build(entry.value)) for entry in torches)
    if found is not None:
        yield RULE.finding(f"torch is {values_by_rank(found)}", ranks=found.minority, builds=found.values)


def _build(torch: TorchBuild) -> str | None:
    if torch.version is None:
        return None
    return f"{torch.version} ({torch.git_version[:8]})" if torch.git_version else torch.version

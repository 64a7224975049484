"""A variable is set under a name that still works and will not for long."""

from collections.abc import Iterator

from ddpdoctor.analysis.launch.group_by_value import who_sets
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.variables import KnownNames
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP189",
    name="deprecated-variable",
    summary="a variable is set under a deprecated name",
    severity=Severity.WARN,
    remedy="set the new name instead of the old one",
    background=True,
)

NCCL_RENAMED = {  # NCCL's guide on environment variables
    "NCCL_MIN_NCHANNELS": "NCCL_MIN_CTAS",
    "NCCL_MAX_NCHANNELS": "NCCL_MAX_CTAS",
    "NCCL_MIN_NRINGS": "NCCL_MIN_CTAS",
    "NCCL_MAX_NRINGS": "NCCL_MAX_CTAS",
    "NCCL_CHECK_POINTERS": "NCCL_CHECK_MODE",
}


def check(environment: PerRank[Environment], names: PerRank[KnownNames]) -> Iterator[Finding]:
    """One finding for each old name, with the new one as the installed libraries have it and the ranks that set it."""
    renamed = dict(NCCL_RENAMED)
    for entry in names:
        renamed.update(entry.value.renamed)
    for old, setters in who_sets(environment, renamed):
        yield RULE.finding(
            f"{old} is set{setters.suffix} but deprecated: its new name is {renamed[old]}",
            ranks=setters.ranks,
            remedy=f"replace {old} with {renamed[old]}",
            old=old,
            new=renamed[old],
        )

"""A variable is set that libraries read once and read no more."""

from collections.abc import Iterator

from ddpdoctor.analysis.launch.group_by_value import who_sets
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.variables import KnownNames
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP190",
    name="variable-no-longer-read",
    summary="a variable is set that no library reads anymore",
    severity=Severity.WARN,
    remedy="remove it, or set what replaced it",
    background=True,
)

GONE = {  # NCCL's guide and release notes; torch's headers
    "NCCL_IB_CUDA_SUPPORT": "removed in NCCL 2.4; NCCL_NET_GDR_LEVEL replaced it",
    "NCCL_IB_GDR_LEVEL": "NCCL_NET_GDR_LEVEL replaced it",
    "NCCL_LL_THRESHOLD": "removed in NCCL 2.5; NCCL_PROTO replaced it",
    "NCCL_TREE_THRESHOLD": "removed in NCCL 2.5; NCCL_ALGO replaced it",
    "NCCL_RINGS": "removed in NCCL 2.5; NCCL_GRAPH_FILE replaced it",
    "TORCH_NCCL_ABORT_IN_DESTROY_PG": "removed from torch; destroy_process_group aborts by itself",
    "NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE replaced it",
}


def check(environment: PerRank[Environment], names: PerRank[KnownNames]) -> Iterator[Finding]:
    """One finding for each such variable; none where the installed library still holds its name."""
    still = {lookup.name for entry in names for lookup in entry.value.judged if lookup.known}
    for name, setters in who_sets(environment, GONE.keys() - still):
        yield RULE.finding(
            f"{name} is set{setters.suffix} but has no effect: {GONE[name]}", ranks=setters.ranks, variable=name
        )

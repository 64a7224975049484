"""Some of the variables that `init_process_group` reads are set, and others are not."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP414",
    name="launcher-variables-missing",
    summary="RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set in part",
    severity=Severity.FAIL,
    remedy="start the job with `torchrun --nproc-per-node N SCRIPT`, which sets all four; `unset RANK WORLD_SIZE` to run alone",
)

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
OTHERS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")  # a script then takes what is missing from these


def check(environment: PerRank[Environment]) -> Iterator[Finding]:
    """One finding for each set of missing names. MASTER_ADDR and MASTER_PORT alone are no job yet."""
    missing: dict[tuple[str, ...], list[int]] = {}
    for entry in environment:
        have = entry.value.variables
        if ("RANK" in have or "WORLD_SIZE" in have) and not any(name in have for name in OTHERS):
            lacking = tuple(name for name in NEEDED if name not in have)
            if lacking:
                missing.setdefault(lacking, []).append(entry.rank)
    for lacking, ranks in missing.items():
        who = f" on {group_ranks(ranks)}" if environment.launched else ""
        present = [name for name in NEEDED if name not in lacking]
        yield RULE.finding(
            f"{', '.join(present)} {'is' if len(present) == 1 else 'are'} set{who}, but not {', '.join(lacking)}",
            ranks=ranks if environment.launched else (),
            missing=list(lacking),
        )

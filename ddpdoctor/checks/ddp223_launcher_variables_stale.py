"""A shell still holds a rank's variables, and nobody else belongs to that job."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.launch import Launch, RankSet
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP223",
    name="launcher-variables-stale",
    summary="an interactive shell holds the variables of a rank, and no other rank exists",
    severity=Severity.WARN,
    shown_by="RANK and WORLD_SIZE are set in an interactive shell without a launcher",
    remedy="run `unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT`; under Slurm, leave the "
    "shell of the step; if you start the ranks by hand, start the others within the deadline",
    explains=("DDP205", "DDP414"),
)


def check(launch: PerRank[Launch], ranks: RankSet | None) -> Iterator[Finding]:
    """A finding where somebody at a terminal is a rank of several, and alone."""
    if ranks is not None and len({arrival.rank for arrival in ranks.arrivals}) > 1:
        return
    for entry in launch:
        seen = entry.value
        if seen.by_hand and seen.world_size > 1:
            yield RULE.finding(
                f"{_names(seen)} in the shell on {entry.host} make this process rank {seen.rank} of {seen.world_size}, but "
                "no launcher started it and no other rank joined",
                ranks=(seen.rank,),
                hosts=(entry.host,),
                world_size=seen.world_size,
            )


def _names(seen: Launch) -> str:
    return "RANK and WORLD_SIZE" if seen.launcher == "torch" else f"the variables of {seen.launcher}"

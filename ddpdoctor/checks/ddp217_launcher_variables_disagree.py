"""Two launchers gave this process different places in the job."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.grouping import grouped
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP217",
    name="launcher-variables-disagree",
    summary="two launchers give one process different ranks or world sizes",
    severity=Severity.FAIL,
    shown_by="one process has the variables of two launchers with different values: `ddpdoctor env` in the job",
    remedy="use one launcher: `srun --ntasks-per-node=1 torchrun ...`, or srun with one task per GPU and no torchrun",
    explains=("DDP205", "DDP206"),
)


def check(launch: PerRank[Launch]) -> Iterator[Finding]:
    """One finding for each way in which launchers disagree, with both sides' words and the ranks concerned."""
    found = grouped(
        (disagreement, entry.value.rank) for entry in launch for disagreement in _disagreements(entry.value)
    )
    for (message, remedy), ranks in found.items():
        yield RULE.finding(f"{group_ranks(ranks)}: {message}", ranks=ranks, remedy=remedy)


def _disagreements(seen: Launch) -> Iterator[tuple[str, str | None]]:
    given = (seen.agent_rank, seen.agent_world_size)
    if seen.launcher == "torchrun" and None not in given and given != (seen.rank, seen.world_size):
        source = next(
            (
                f", the values of {claim.launcher}"
                for claim in seen.claims
                if claim.launcher not in {"torchrun", "torch"} and claim.rank == seen.rank
            ),
            "",
        )
        now = f"RANK={seen.rank} WORLD_SIZE={seen.world_size}{source}"
        yield (
            f"torchrun set RANK={seen.agent_rank} WORLD_SIZE={seen.agent_world_size}, but the environment now has {now}",
            "do not set RANK and WORLD_SIZE under torchrun: read the values that it sets",
        )
    elif seen.launcher == "torchrun" and (seen.agents or 1) > 1 and (seen.tasks or 1) > 1 and seen.tasks != seen.agents:
        yield (
            f"{seen.tasks_by} started {seen.tasks} processes, each of them a torchrun that expects {seen.agents} nodes",
            "start one torchrun per node: `srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES ...`",
        )
    elif seen.launcher == "torch" and (seen.tasks or 1) > 1 and seen.world_size not in {1, seen.tasks}:
        yield (
            f"WORLD_SIZE={seen.world_size} is set, but {seen.tasks_by} started {seen.tasks} processes",
            f"set WORLD_SIZE={seen.tasks} and RANK from the variables of {seen.tasks_by}, or start {seen.world_size} tasks",
        )

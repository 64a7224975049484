"""Several processes each run a job of their own where one job was meant."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank, noun_of
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP218",
    name="independent-jobs",
    summary="each task runs a job of its own instead of one common job",
    severity=Severity.FAIL,
    shown_by="every process prints rank 0 and world size 1",
    remedy="give every torchrun the same --rdzv-endpoint and --nnodes (not --standalone), or set RANK and WORLD_SIZE from the"
    " launcher's variables",
    explains=("DDP202",),
)


def check(launch: PerRank[Launch] | None, log: JobLog | None) -> Iterator[Finding]:
    """One finding where srun or mpirun started several processes and each of them believes to be alone.

    By a log: where several processes announce themselves as rank 0 of 1.
    """
    if launch is None and log is None:
        raise SkipCheck(f"no {noun_of(Launch.__name__)} in the evidence")
    started = [line for line in log.remarks if "MEMBER: 1/1" in line] if log is not None else []
    if len(started) > 1:
        yield RULE.finding(
            f"{len(started)} processes announce themselves as rank 0 of 1: {len(started)} independent jobs",
            details=started[:1],
            tasks=len(started),
            world_size=1,
        )
    for entry in launch or ():
        seen = entry.value
        alone = (seen.launcher == "torchrun" and seen.agents == 1) or (
            seen.launcher == "torch" and seen.world_size == 1
        )
        if alone and seen.tasks is not None and seen.tasks > 1 and not _overwritten(seen):
            each = (
                f"a torchrun of one node with WORLD_SIZE={seen.world_size}"
                if seen.launcher == "torchrun"
                else "rank 0 of 1"
            )
            yield RULE.finding(
                f"{seen.tasks_by} started {seen.tasks} processes and this one is {each}: {seen.tasks} independent jobs",
                tasks=seen.tasks,
                world_size=seen.world_size,
            )
            return


def _overwritten(seen: Launch) -> bool:
    return seen.launcher == "torchrun" and seen.agent_rank is not None and seen.agent_rank != seen.rank

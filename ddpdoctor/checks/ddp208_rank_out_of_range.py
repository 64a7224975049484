"""A rank is not below the world size, or a local rank not below the local one."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP208",
    name="rank-out-of-range",
    summary="RANK is not below WORLD_SIZE, or LOCAL_RANK not below LOCAL_WORLD_SIZE",
    severity=Severity.FAIL,
    shown_by="RANK or LOCAL_RANK is as large as its world size: `ddpdoctor env` under the same launcher",
    remedy="count ranks from 0 to WORLD_SIZE - 1, and local ranks from 0 on each node",
    explains=("DDP205",),
)


def check(launch: PerRank[Launch]) -> Iterator[Finding]:
    """One finding for each rank with such numbers."""
    for entry in launch:
        seen = entry.value
        if not 0 <= seen.rank < seen.world_size:
            yield RULE.finding(
                f"RANK={seen.rank} on {entry.host} is not in 0..{seen.world_size - 1} (WORLD_SIZE={seen.world_size})",
                ranks=(seen.rank,),
                hosts=(entry.host,),
                rank=seen.rank,
                world_size=seen.world_size,
            )
        elif (
            seen.local_rank is not None
            and seen.local_world_size is not None
            and not 0 <= seen.local_rank < seen.local_world_size
        ):
            yield RULE.finding(
                f"LOCAL_RANK={seen.local_rank} of rank {seen.rank} is not in 0..{seen.local_world_size - 1} "
                f"(LOCAL_WORLD_SIZE={seen.local_world_size})",
                ranks=(seen.rank,),
                hosts=(entry.host,),
                local_rank=seen.local_rank,
                local_world_size=seen.local_world_size,
            )

"""A rank is not below the world size, or a local rank not below the local one."""

import re
from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failures import Failures, unique_ranks
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP208",
    name="rank-out-of-range",
    summary="RANK is not below WORLD_SIZE, or LOCAL_RANK not below LOCAL_WORLD_SIZE",
    severity=Severity.FAIL,
    shown_by="RANK or LOCAL_RANK is as large as its world size: `ddpdoctor env` under the same launcher; gloo dies of "
    "`rank < size`",
    remedy="count ranks from 0 to WORLD_SIZE - 1, and local ranks from 0 on each node",
    explains=("DDP205", "DDP401"),
    errors=(
        ErrorPattern(
            regex=r"enforce fail at \S{1,200}gloo/context\.cc\S{0,20}\] rank < size\. \d+ vs \d+",
        ),
    ),
)

OF_THE_PROGRAM = (
    "take `world_size` and `rank` out of `init_process_group`, and lines that set WORLD_SIZE or RANK out of the program: the "
    "launcher sets them; or start as many ranks"
)
_REFUSED = re.compile(r"rank < size\. (?P<rank>\d{1,18}) vs (?P<size>\d{1,18})")


def check(launch: PerRank[Launch] | None, failures: Failures | None) -> Iterator[Finding]:
    """One finding for each rank with such numbers, of its launcher or of its call of `init_process_group`."""
    if launch is None and failures is None:
        raise SkipCheck("no launcher variables and no exit status of any rank")
    if failures is not None:
        yield from _by_words(failures)
    for entry in launch or ():
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


def _by_words(failures: Failures) -> Iterator[Finding]:
    """Ranks that gloo refused as they joined, whatever their launcher had told them."""
    for failure in failures.of("DDP208"):
        refused = _REFUSED.search(failure.text)
        if refused is None:
            continue
        rank, size = int(refused["rank"]), int(refused["size"])
        yield RULE.finding(
            f"init_process_group has rank {rank} of world size {size}: ranks are 0..{size - 1}",
            ranks=unique_ranks([failure]),
            where=failure.where("joins here"),
            remedy=OF_THE_PROGRAM,
            rank=rank,
            world_size=size,
        )

"""A rank is not below the world size, or a local rank not below the local one."""

import re
from collections.abc import Iterable, Iterator, Sequence

from ddpdoctor.analysis.crashes.failure import Failure, unique_ranks
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP208",
    name="rank-out-of-range",
    summary="RANK is not below WORLD_SIZE, or LOCAL_RANK not below LOCAL_WORLD_SIZE",
    severity=Severity.FAIL,
    shown_by="RANK or LOCAL_RANK is as large as its world size: `ddpdoctor env` under the same launcher; gloo dies of "
    "`rank < size`",
    remedy="count ranks from 0 to WORLD_SIZE - 1, and local ranks from 0 on each node",
    explains=("DDP205",),
    errors=(
        ErrorPattern(
            regex=r"enforce fail at \S{0,200}gloo/context\.cc\S{0,20}\] rank < size\. \d{1,18} vs \d{1,18}(?!\d)",
        ),
    ),
)

OF_THE_PROGRAM = (
    "take `world_size` and `rank` out of `init_process_group`, and lines that set WORLD_SIZE or RANK out of the program: the "
    "launcher sets them; or start as many ranks"
)
_REFUSED = re.compile(r"rank < size\. (?P<rank>\d{1,18}) vs (?P<size>\d{1,18})(?!\d)")


def check(launch: PerRank[Launch] | None, failures: Failures | None) -> Iterator[Finding]:
    """One finding for all ranks with such numbers beside one world size, of their call of `init_process_group` or launcher.

    A rank that gloo refused is not told again by its variables.
    """
    if launch is None and failures is None:
        raise SkipCheck("no launcher variables and no exit status of any rank")
    refused = _refused(failures) if failures is not None else {}
    for size, numbers in sorted(refused.items()):
        yield _by_words(size, numbers)
    reported = {rank for numbers in refused.values() for rank in (*numbers, *unique_ranks(_all(numbers)))}
    yield from _by_variables([entry for entry in launch or () if not {entry.rank, entry.value.rank} & reported])


def _by_variables(launch: Sequence[Entry[Launch]]) -> Iterator[Finding]:
    """The ranks whose variables are out of range, grouped by WORLD_SIZE; then those by LOCAL_WORLD_SIZE."""
    beyond: dict[int, list[Entry[Launch]]] = {}
    locally: dict[int, list[tuple[Entry[Launch], int]]] = {}
    for entry in launch:
        seen = entry.value
        if not 0 <= seen.rank < seen.world_size:
            beyond.setdefault(seen.world_size, []).append(entry)
        elif (
            seen.local_rank is not None
            and seen.local_world_size is not None
            and not 0 <= seen.local_rank < seen.local_world_size
        ):
            locally.setdefault(seen.local_world_size, []).append((entry, seen.local_rank))
    for size, each in sorted(beyond.items()):
        ranks = [entry.value.rank for entry in each]
        who = f"RANK={ranks[0]} on {each[0].host}" if len(each) == 1 else f"RANK of {group_ranks(ranks)}"
        yield RULE.finding(
            f"{who} {_is_outside('WORLD_SIZE', size)}",
            ranks=ranks,
            hosts=_hosts(each),
            rank=min(ranks),
            world_size=size,
        )
    for size, placed in sorted(locally.items()):
        ranks, numbers = [entry.value.rank for entry, _ in placed], [number for _, number in placed]
        who = (
            f"LOCAL_RANK={numbers[0]} of rank {ranks[0]}" if len(placed) == 1 else f"LOCAL_RANK of {group_ranks(ranks)}"
        )
        yield RULE.finding(
            f"{who} {_is_outside('LOCAL_WORLD_SIZE', size)}",
            ranks=ranks,
            hosts=_hosts([entry for entry, _ in placed]),
            local_rank=min(numbers),
            local_world_size=size,
        )


def _is_outside(name: str, size: int) -> str:
    """`is not in 0..7 (WORLD_SIZE=8)`."""
    return f"is not in 0..{size - 1} ({name}={size})" if size > 0 else f"is not valid: {name}={size} is below 1"


def _hosts(entries: Iterable[Entry[Launch]]) -> list[str]:
    return [*dict.fromkeys(entry.host for entry in entries)]


def _refused(failures: Failures) -> dict[int, dict[int, list[Failure]]]:
    """By world size and number of a rank, the failures in which gloo refused that number as it joined."""
    found: dict[int, dict[int, list[Failure]]] = {}
    for failure in failures.of(RULE.code):
        for refused in _REFUSED.finditer(failure.text):
            found.setdefault(int(refused["size"]), {}).setdefault(int(refused["rank"]), []).append(failure)
    return found


def _all(numbers: dict[int, list[Failure]]) -> list[Failure]:
    return [failure for each in numbers.values() for failure in each]


def _by_words(size: int, numbers: dict[int, list[Failure]]) -> Finding:
    """Ranks that gloo refused as they joined, whatever their launcher had told them."""
    each = dict.fromkeys(where for failure in _all(numbers) for where in failure.where("joins here"))
    allowed = f"ranks are 0..{size - 1}" if size > 0 else "a world size is at least 1"
    return RULE.finding(
        f"init_process_group has {group_ranks([*numbers])} of world size {size}: {allowed}",
        ranks=unique_ranks(_all(numbers)),
        where=[*each],
        remedy=OF_THE_PROGRAM,
        rank=min(numbers),
        world_size=size,
    )

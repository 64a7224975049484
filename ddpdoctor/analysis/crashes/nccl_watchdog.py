"""What NCCL's watchdogs said when ranks gave up: which collective each was in, where a job left its log and no dumps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ddpdoctor.analysis.collectives.recorders.matching import ALIKE_ON_EVERY_RANK, SAME_NAMES
from ddpdoctor.analysis.crashes.debug_detail_errors import recorders_name
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.model import SkipCheck, group_ranks

_CAUGHT = re.compile(
    r"(?:timeout: |\] Work )WorkNCCL\(SeqNum=(?P<seq>\d{1,18}), OpType=(?P<op>\w+)"
    r"(?:, NumelIn=(?P<numel>\d{1,18})(?!\d))?"
)
# what else a watchdog says of the call, without its name: all that is left of a rank whose other lines nobody kept
_AT_WORK = re.compile(
    r"(?:Timeout at NCCL work|detected by watchdog at work):? (?:sequence id: )?(?P<seq>\d{1,18})(?!\d)"
)
# the name behind GUID is that of one group; a bare number counts each rank's own groups, of which only the first is everybody's
_GROUP = re.compile(
    r"\[PG (?:ID \d+ PG GUID (?P<guid>[^\]]{1,200}?)|(?P<first>0\b[^\]]{0,200}?)) Rank \d+\] "
    r".{0,400}[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>\d{1,18})(?!\d)"
)
# the monitor of the watchdogs, before it ends its process; the second until torch 2.4
_STOOD_STILL = re.compile(r"watchdog got stuck for \d+ seconds|Heartbeat monitor timed out!")
# what other ranks hear of it over the store, and what the rank says itself
_TOLD_OF = re.compile(r"Received a dump signal due to a collective timeout from\s+rank (\d{1,9})\b")
_SAYS_SO = "Received a dump signal due to a collective timeout from this local rank"
# what torch tells of the ranks that it compares under TORCH_NCCL_DESYNC_DEBUG, which are counted within the group
_NOT_JOINED = re.compile(
    r"\[(?P<ranks>\d{1,9}(?:, \d{1,9}){0,999})\] finished collective #(?P<last>\d{1,18}), but didn't join collective #"
)
_ANY_GROUP = re.compile(r"\[PG (?:ID )?(\d{1,9})\b")
_FIRST_GROUP = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogTimeout:
    """The collective that one rank gave up in."""

    op: str
    """The operation as the flight recorder names it; empty where the log kept the number alone."""
    seq: int
    """Its sequence number in the group."""
    numel: int | None
    """The number of input elements; None where the log does not give it."""
    group: str | None
    """The name of the process group; None where the log is of an older PyTorch."""
    enqueued: int | None
    """The number of the rank's last call in the group; None where the log is of an older PyTorch."""

    @property
    def name(self) -> str:
        """`all_reduce #41`."""
        return f"{self.op} #{self.seq}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watchdogs:
    """What each rank's watchdog said."""

    gave_up: Mapping[int, WatchdogTimeout]
    """By rank, the collective that its watchdog gave up in."""
    silent: tuple[int, ...]
    """The ranks of the job whose watchdog said nothing."""
    stood_still: tuple[int, ...] = ()
    """The ranks whose watchdog thread was stuck: a call into CUDA or NCCL does not return there, or a thread keeps the GIL."""
    told_of: tuple[int, ...] = ()
    """The ranks that gave up, as others have heard, and that say nothing themselves."""
    reached: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """By rank that gave up in no call, the name of a group and the number of its last call there, as it heard of the timeout."""

    not_joined: Mapping[int, int] = field(default_factory=dict)
    """By rank of which torch itself says that it did not come, the number of its last call as torch counts."""

    @property
    def together(self) -> bool:
        """Whether several ranks of one group gave up in one and the same call, and nobody in another or without a word."""
        calls = {(one.group, one.op, one.seq) for one in self.gave_up.values()}
        return (
            len(calls) == 1 < len(self.gave_up)
            and (None not in next(iter(calls)))
            and not (self.silent or self.told_of or self.behind())
        )

    def sentences(self) -> Iterator[str]:
        """`ranks 0-2 in all_reduce #41`, one line for all ranks that gave up in the same call, the most ranks first."""
        for ranks in vote({rank: one.name for rank, one in self.gave_up.items()}).sides:
            yield f"{group_ranks(ranks)} in {self.gave_up[ranks[0]].name}"

    def operations(self) -> Mapping[int, WatchdogTimeout] | None:
        """What the ranks of the first group that met in one call made of it, where they called different operations."""
        return next((met for met in self._met() if len({one.op for one in met.values()}) > 1), None)

    def sizes(self) -> Mapping[int, WatchdogTimeout] | None:
        """The same, where they called one operation with different numbers of elements, and all must give as many."""
        for met in self._met():
            ops, numels = {SAME_NAMES.get(one.op, one.op) for one in met.values()}, {one.numel for one in met.values()}
            if len(ops) == 1 and ops <= ALIKE_ON_EVERY_RANK and len(numels - {None}) > 1:
                return met
        return None

    def behind(self) -> tuple[int, ...]:
        """The ranks that had not made the call that most of their group gave up in, or of which torch itself says so."""
        late: set[int] = {*self.not_joined}
        for group in self._groups():
            majority = vote({rank: one.seq for rank, one in group.items()}).majority
            if majority:
                call = group[majority[0]]
                last = {rank: one.enqueued for rank, one in group.items() if one.enqueued is not None}
                last |= {rank: seq for rank, (name, seq) in self.reached.items() if name == call.group}
                late |= {rank for rank, seq in last.items() if seq < call.seq}
        return tuple(sorted(late))

    def _met(self) -> Iterator[Mapping[int, WatchdogTimeout]]:
        """The ranks of each group that gave up under one number."""
        for group in self._groups():
            for seq in sorted({one.seq for one in group.values()}):
                yield {rank: one for rank, one in group.items() if one.seq == seq}

    def _groups(self) -> Iterator[Mapping[int, WatchdogTimeout]]:
        for name in sorted({one.group for one in self.gave_up.values() if one.group is not None}):
            yield {rank: one for rank, one in self.gave_up.items() if one.group == name}


def derive(exits: PerRank[RankExit], log: JobLog | None = None) -> Watchdogs:
    """What the last lines of all ranks tell.

    Raises:
        SkipCheck: no watchdog said anything.
    """
    found = {entry.rank: gave_up for entry in exits if (gave_up := _gave_up(entry.value.tail)) is not None}
    numbered = {entry.rank: only for entry in exits if entry.rank not in found and (only := _number(entry.value.tail))}
    found |= {rank: call for rank, only in numbered.items() if (call := _named_by_others(only, found)) is not None}
    still = tuple(entry.rank for entry in exits if any(map(_STOOD_STILL.search, entry.value.tail)))
    told_of = {int(rank) for entry in exits for line in entry.value.tail for rank in _TOLD_OF.findall(line)}
    told_of -= {*found, *numbered, *still}
    told_of |= {entry.rank for entry in exits if entry.rank not in found and _says_so(entry.value.tail)}
    if not found and not still and not told_of:
        raise SkipCheck("no watchdog of NCCL gave up")
    # where there is a rank 3 there is a rank 0
    ranks = {*range(max(found, default=0)), *(entry.rank for entry in exits)}
    reached = {
        entry.rank: (group, enqueued)
        for entry in exits
        for group, enqueued in [_group(entry.value.tail)]
        if entry.rank not in {*found, *numbered} and group is not None and enqueued is not None
    }
    silent = tuple(sorted(ranks - {*found, *numbered, *still, *told_of, *reached}))
    return Watchdogs(
        gave_up=found, silent=silent, stood_still=still, told_of=tuple(sorted(told_of)), reached=reached,
        not_joined={rank: last for rank, last in _not_joined(log).items() if rank not in {*found, *numbered}},
    )  # fmt: skip


def _says_so(lines: Sequence[str]) -> bool:
    return any(_SAYS_SO in line for line in lines)


def _not_joined(log: JobLog | None) -> Mapping[int, int]:
    """By rank that every report of torch says did not come, its last call; empty where lines of other groups are in the log."""
    lines = [line.text for line in log.failure_lines] if log is not None else []
    if {found for line in lines for found in _ANY_GROUP.findall(line)} != {_FIRST_GROUP}:
        return {}
    reports = [
        {int(rank): int(found["last"]) for rank in found["ranks"].split(",")}
        for found in filter(None, map(_NOT_JOINED.search, lines))
    ]
    return {rank: last for rank, last in next(iter(reports), {}).items() if all(rank in report for report in reports)}


def _gave_up(lines: Sequence[str]) -> WatchdogTimeout | None:
    """The first call that a rank's watchdog named: what comes after is its consequence."""
    caught = next((match for line in lines if (match := _CAUGHT.search(line))), None)
    if caught is None:
        return None
    group, enqueued = _group(lines)
    return WatchdogTimeout(
        op=recorders_name(caught["op"]),
        seq=int(caught["seq"]),
        numel=int(caught["numel"]) if caught["numel"] else None,
        group=group,
        enqueued=enqueued,
    )


def _number(lines: Sequence[str]) -> WatchdogTimeout | None:
    """The same, where the lines that are left give the number of the call and not its name, which is empty."""
    at = next((match for line in lines if (match := _AT_WORK.search(line))), None)
    if at is None:
        return None
    group, enqueued = _group(lines)
    return WatchdogTimeout(op="", seq=int(at["seq"]), numel=None, group=group, enqueued=enqueued)


def _named_by_others(only: WatchdogTimeout, found: Mapping[int, WatchdogTimeout]) -> WatchdogTimeout | None:
    """The call with the one name that ranks of this group give to this number; None where they give none or several."""
    names = {one.op for one in found.values() if (one.group, one.seq) == (only.group, only.seq)}
    return replace(only, op=names.pop()) if len(names) == 1 else None


def _group(lines: Sequence[str]) -> tuple[str | None, int | None]:
    """The name of the call's group, and the last call that the rank enqueued there; None for both where no line has them."""
    group = next((match for line in lines if (match := _GROUP.search(line))), None)
    return (group["guid"] or group["first"], int(group["enqueued"])) if group is not None else (None, None)

"""A rank has come to its end but its process does not go: a thread, a process group or a child keeps it alive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from ddpdoctor.analysis.doing import OWN_END, Doing, Doings
from ddpdoctor.analysis.telling import Activity
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks

RULE = Rule(
    code="DDP318",
    name="job-waits-to-exit",
    summary="a rank has nothing left to do but its process does not end",
    severity=Severity.FAIL,
    remedy="end what keeps it alive (`thread.join(timeout)`, `daemon=True`, `executor.shutdown(cancel_futures=True)`); after a "
    "failed collective leave with `os._exit` instead of waiting for the process group",
    explains=("DDP408",),
)


def check(doings: Doings, exits: PerRank[RankExit] | None, stall: Stall | None) -> Iterator[Finding]:
    """The ranks that are leaving, where no rank is still at work; of those that clean up, only the ones that do not get on."""
    leaving = doings.of(Activity.EXITING)
    if len(leaving) < len(doings.each):
        return
    kept_alive = tuple(doing for doing in leaving if doing.operation != OWN_END)
    leaving = kept_alive or tuple(doing for doing in leaving if not doing.moves)
    if leaving:
        failed = {entry.rank for entry in exits or () if entry.value.error is not None}
        yield RULE.finding(
            f"{_subject(leaving, failed)}{_since(stall)}: the main thread is in {leaving[0].operation}{_keeper(leaving[0])}",
            ranks=[doing.rank for doing in leaving],
            where=[where for doing in leaving if (where := _where(doing)) is not None],
            seconds=stall.seconds if stall is not None else None,
            after_an_error=sorted(failed & {doing.rank for doing in leaving}),
        )


def _subject(leaving: tuple[Doing, ...], failed: set[int]) -> str:
    ranks = [doing.rank for doing in leaving]
    verb = "do" if len(ranks) > 1 else "does"
    after = " after an error" if failed & {*ranks} else ""
    return f"{group_ranks(ranks)} {verb} not exit{after}"


def _since(stall: Stall | None) -> str:
    return f" for {stall.seconds:.1f} s" if stall is not None and stall.seconds is not None else ""


def _keeper(doing: Doing) -> str:
    if doing.place is None:
        return ""
    return f", kept alive by {doing.place.function} ({PurePath(doing.place.file).name}:{doing.place.line})"


def _where(doing: Doing) -> Where | None:
    if doing.place is None:
        return None
    place = doing.place
    return Where.at(place, rank=doing.rank, note="keeps the process alive")

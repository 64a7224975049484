"""How each rank of a job log ended: what launchers, tables and exceptions say, put together once all lines are read."""

from __future__ import annotations

import re
import signal
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ddpdoctor.analysis.crashes.error_patterns import secondary_error
from ddpdoctor.evidence.frames import Frame, is_launchers
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.grouping import grouped
from ddpdoctor.logs.failure_signs import form_of, warns
from ddpdoctor.logs.log_contents import LogContents, RankLines, possible_rank

MAX_RANKS_OF_A_NODE = 1024
_RANKS_TOLD = re.compile(r"^CheckpointException ranks:dict_keys\(\[(?P<ranks>\d[\d, ]{0,400})\]\)")
# of HCCL on Ascend, of the bridge to Gaudi, of Megatron's checks of gradients and of gloo's monitored barrier, whose messages
# name the rank that raises them
_RANK_NAMED = re.compile(
    r"\(PID:\d+, Device:\d+, RankID:(\d{1,9})\)|^\[Rank:(\d{1,9})\] |^Rank (\d{1,9}): found \w|"
    r"^Rank (\d{1,9}) successfully reached monitoredBarrier, but"
)
# of torch_xla, before the traceback of the process: on one host its device is its rank
_OF_A_DEVICE = re.compile(r"^Exception in device=[A-Z]{2,8}:(?P<rank>\d{1,4}): (?P<message>.+)$")
# of Horovod, and of the workers that make batches for nnU-Net
_ONE_FAILED = re.compile(
    r"Horovod detected that one or more processes exited|Abort event was set\. So someone died|"
    r"One or more background workers are no longer alive"
)
_WHAT = "what():"
_ABORTS = re.compile(rf"\bterminate called\b|\b{re.escape(_WHAT)}")
_OF_A_WATCHDOG = re.compile(r"Watchdog caught|taking the entire process down|thread terminated with exception")
GRACE_SECONDS = 25.0  # torchrun waits for 30 s between SIGTERM and SIGKILL; tables show whole seconds
LAUNCHERS_OWN = {
    "ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError", "SignalException",
    "RayTaskError", "TrainingFailedError", "WorkerGroupError", "Py4JJavaError",
}  # fmt: skip


def complete(log: LogContents) -> list[RankError]:
    """Give each rank its exit code and its exceptions, wherever in the log they stand.

    Returns:
        The exceptions that ranks survived, which are taken out.
    """
    _take_over_the_table(log)
    _give_to_the_ranks_that_peers_tell_of(log)
    _give_to_the_ranks_that_they_name(log)
    _give_to_the_ranks_that_announced_them(log)
    _give_local_ranks_their_ends(log)
    _absent_from_the_table(log)
    _end_those_that_crashed(log)
    handled: list[RankError] = []
    if not _shows_an_end(log):
        _take_out_warnings_after_the_end(log)
        handled = [*_take_out_what_was_survived(log)]
    _give_to_the_ranks_that_failed(log)
    _give_to_the_ranks_that_aborted(log)
    _count_what_was_cut(log)
    return handled


def rank_exits(log: LogContents) -> dict[int, RankExit]:
    """By rank, how it ended, from contents that are `complete`. Ranks that a launcher named as one range share one object."""
    order, failed = _order(log), _failed(log)
    exits: dict[tuple[int, int | None], RankExit] = {}
    found = {}
    for number, rank in sorted(log.numbered().items()):
        key = (id(rank), order.get(number))
        if key not in exits:
            exits[key] = _exit(log, rank, order.get(number), failed)
        found[number] = exits[key]
    return found


def _take_over_the_table(log: LogContents) -> None:
    for row in log.table.rows:
        rank = log.of(row.rank)
        rank.host, rank.ended_at = row.host, row.ended_at
        if row.code is not None:
            rank.code, rank.pid = row.code, row.pid
        if log.table.first_is_cut and not log.local and (row.code or 0) > 0:
            log.ends.append(RankExit(exit_code=row.code))  # of the rank that failed before it
        row.tracebacks.close()
        rank.tracebacks.errors += row.tracebacks.errors
        if row.tracebacks.errors and rank.first_error is None:
            rank.first_error = log.lines
    log.several_nodes = log.several_nodes or len({row.host for row in log.table.rows}) > 1


def _give_to_the_ranks_that_peers_tell_of(log: LogContents) -> None:
    """Every rank raises what failed on some while a checkpoint was saved or loaded: it is the failure of those."""
    for number, rank in [*log.ranks.items()]:
        for error in [*rank.tracebacks.errors]:
            found = _RANKS_TOLD.match(error.message)
            ranks = [*map(int, found["ranks"].split(","))] if found is not None else []
            if not ranks or number in ranks:
                continue
            rank.tracebacks.errors.remove(error)
            _forget(log, number, error)
            for told in map(log.of, ranks):
                told.tracebacks.errors += [error] if not told.tracebacks.errors else []
                told.first_error = told.first_error or rank.first_error


def _give_to_the_ranks_that_they_name(log: LogContents) -> None:
    """Exceptions of no rank whose own message names one."""
    nobody = log.of(None)
    for error in [*nobody.tracebacks.errors]:
        found = _RANK_NAMED.search(error.message)
        if found is not None and (rank := possible_rank(int(next(filter(None, found.groups()))))) is not None:
            nobody.tracebacks.errors.remove(error)
            named = log.of(rank)
            named.tracebacks.errors.append(error)
            named.first_error = named.first_error or nobody.first_error


def _give_to_the_ranks_that_announced_them(log: LogContents) -> None:
    """Exceptions of no rank, where processes have said with which message they fail: all that said the same."""
    nobody = log.of(None)
    said = () if log.several_nodes else (found for line in nobody.said if (found := _OF_A_DEVICE.match(line)))
    told = grouped((found["message"], possible_rank(int(found["rank"]))) for found in said)
    for error in [*nobody.tracebacks.errors]:
        for rank in map(log.of, told.get(error.message.partition("\n")[0], ())):
            rank.tracebacks.errors += [error] if error not in rank.tracebacks.errors else []
            rank.first_error = rank.first_error or nobody.first_error
            nobody.tracebacks.errors = [other for other in nobody.tracebacks.errors if other is not error]


def _forget(log: LogContents, number: int | None, error: RankError) -> None:
    """Take out the lines of this rank that show this error, which is another rank's."""
    texts = {each.message.partition("\n")[0] for each in (error, error.cause) if each is not None} - {""}
    rank = log.ranks[number]
    rank.said = [line for line in rank.said if not any(map(line.endswith, texts))]
    log.failure_lines = [
        line for line in log.failure_lines if line.rank != number or not any(map(line.text.endswith, texts))
    ]


def _give_local_ranks_their_ends(log: LogContents) -> None:
    """On one node a local rank is the rank; on several nothing shows which it is, unless the table does.

    Where watchdogs of other ranks say that they end their processes, the local rank that SIGABRT ended is one of another node.
    """
    seen = [*log.numbered()]
    watchdogs = {number for number, rank in log.numbered().items() if any(map(_OF_A_WATCHDOG.search, rank.said))}
    pids = {rank.pid for rank in log.ranks.values()}
    for end in log.local:
        if end.pid in pids and end.pid is not None:
            continue
        of_another = end.code == -signal.SIGABRT and watchdogs and end.local_rank not in watchdogs
        if log.several_nodes or of_another or (seen and max(seen) > end.local_rank + 7 and end.local_rank not in seen):
            log.ends.append(RankExit(exit_code=end.code, pid=end.pid))
        else:
            rank = log.of(end.local_rank)
            rank.code, rank.pid = end.code, end.pid


def _absent_from_the_table(log: LogContents) -> None:
    """A rank of a single node that the table leaves out ended well: torchrun lists all that failed or that it ended."""
    listed = {row.rank for row in log.table.rows if row.pid is not None}
    hosts = {row.host for row in log.table.rows}
    if not log.table.whole or len(hosts) != 1 or log.closing:
        return
    size = max([*log.numbered(), (log.world_size or 0) - 1]) + 1
    if size > MAX_RANKS_OF_A_NODE:
        return
    for number in range(size):
        if number not in listed:
            log.of(number).code, log.of(number).host = 0, next(iter(hosts))


def _end_those_that_crashed(log: LogContents) -> None:
    """What a handler of signals reported is an end, where no launcher shows how ranks ended and nothing failed before it.

    Processes that are torn down after another failure crash as well.
    """
    if _shows_an_end(log):
        return
    for number, crash in log.crashes.items():
        others = [rank for other, rank in log.ranks.items() if other != number]
        failed_before = any(rank.first_error is not None and rank.first_error < crash.line for rank in others)
        if failed_before or not all(map(is_passed_on, log.of(number).tracebacks.errors)):
            continue
        if number is None:
            log.ends.append(RankExit(exit_code=-crash.signal))
        else:
            log.of(number).code = -crash.signal


def _shows_an_end(log: LogContents) -> bool:
    """Whether anything but exceptions shows that the job failed."""
    ended = any(rank.code for rank in log.ranks.values())
    return ended or bool(log.closing or log.ended_by or log.oom_line or log.ends)


def _take_out_warnings_after_the_end(log: LogContents) -> None:
    """After the end of a training, ranks that still run warn that the store of the first rank is gone: nothing failed."""
    if log.signs_before_end is None:
        return
    after = log.failure_lines[log.signs_before_end :]
    if not all(warns(line.text) and secondary_error(line.text) for line in after):
        return
    texts = {line.text for line in after}
    del log.failure_lines[log.signs_before_end :]
    for rank in log.ranks.values():
        rank.said = [text for text in rank.said if text not in texts]
        rank.tail = deque((text for text in rank.tail if text not in texts), maxlen=rank.tail.maxlen)


def _take_out_what_was_survived(log: LogContents) -> Iterator[RankError]:
    """Exceptions, and lines that show a failure, after which the same rank went on as before: somebody caught them."""
    for number, rank in log.ranks.items():
        errors = rank.tracebacks.errors
        yield from errors[: rank.survived]
        del errors[: rank.survived]
        survived = {*rank.said[: rank.survived_said]} - {*rank.said[rank.survived_said :]}
        del rank.said[: rank.survived_said]
        log.failure_lines = [line for line in log.failure_lines if line.rank != number or line.text not in survived]


def _give_to_the_ranks_that_failed(log: LogContents) -> None:
    """Exceptions without a rank belong to the ranks that failed without one, where there are as many and all are alike.

    Of several tables, as of the logs of several nodes one after the other, each has those that stand before it.
    """
    nobody = log.of(None)
    listed = {row.pid for row in log.table.rows}
    if log.table.first_is_cut or any(end.pid not in listed for end in log.local):
        return  # this line is of the first rank that torchrun looked at, and the exception may be another one's
    silent = [
        number
        for number, rank in log.numbered().items()
        if (rank.code or 0) > 0 and not rank.tracebacks.errors and rank.pid not in log.closing
    ]
    errors, begin = nobody.tracebacks.errors, 0
    tables = {row.rank: row.errors_before for row in log.table.rows}
    ends = sorted({*tables.values()}) if len({row.host for row in log.table.rows}) > 1 else []
    left: list[RankError] = []
    for end in ends:
        left += _given(log, errors[begin:end], [number for number in silent if tables.get(number) == end])
        begin = end
    silent = [number for number in silent if not log.ranks[number].tracebacks.errors]
    nobody.tracebacks.errors = _given(log, [*left, *errors[begin:]], silent)


def _given(log: LogContents, errors: list[RankError], silent: Sequence[int]) -> list[RankError]:
    """Give these exceptions to these ranks, where there are as many of both and all are alike; else they are left over."""
    own = [error for error in errors if not is_passed_on(error)]
    if not own or len(own) != len(silent) or len({(error.type, error.stack) for error in own}) != 1:
        return errors
    for rank, error in zip(map(log.of, silent), own, strict=True):
        rank.tracebacks.errors.append(error)
        rank.first_error = log.of(None).first_error
    return []


def _give_to_the_ranks_that_aborted(log: LogContents) -> None:
    """What C++ says before it aborts has no rank: it is of the ranks that SIGABRT ended, where there are as many or it is one."""
    nobody = log.ranks.get(None, RankLines())
    words = [line for line in nobody.said if _ABORTS.search(line)]
    shown = [line for line in words if _WHAT in line]
    aborted = [
        rank
        for rank in log.numbered().values()
        if rank.code == -signal.SIGABRT and rank.pid not in log.closing and not rank.of_a_range
    ]
    alike = len(shown) == 1 or (len(shown) == len(aborted) and len({*map(form_of, shown)}) == 1)
    if aborted and alike and not any(rank.said for rank in aborted):
        nobody.said = [line for line in nobody.said if line not in words]
        for number, rank in enumerate(aborted):
            rank.said += [line for line in words if line not in shown] + [shown[min(number, len(shown) - 1)]]


def _count_what_was_cut(log: LogContents) -> None:
    """Where nothing else shows a failure, a rank whose traceback ends before its exception failed with it."""
    raised = any(not is_passed_on(error) for rank in log.ranks.values() for error in rank.tracebacks.errors)
    if _shows_an_end(log) or log.failure_lines or raised:
        return
    for rank in log.numbered().values():
        cut = (error for error in rank.tracebacks.cut if not any(is_launchers(frame.file) for frame in error.stack))
        rank.tracebacks.errors += [*cut][-1:]


def _order(log: LogContents) -> Mapping[int, int]:
    """By rank, the place of its failure among all: by the clock where every rank's first line shows one, else by lines."""
    failed = {number: rank for number, rank in log.numbered().items() if rank.first_error is not None}
    clock = {line.rank: line.at for line in reversed(log.failure_lines)}
    times = {number: clock.get(number) for number in failed}
    if None in times.values():
        moments: dict[int, float] = {number: float(rank.first_error or 0) for number, rank in failed.items()}
    else:
        moments = {number: at for number, at in times.items() if at is not None}
    places = {moment: place for place, moment in enumerate(sorted({*moments.values()}))}
    return {number: places[moment] for number, moment in moments.items()}


def _exit(log: LogContents, rank: RankLines, order: int | None, failed: _Failed) -> RankExit:
    ours = _ended_by_launcher(log, rank, failed)
    killed = rank.code == -9 and not ours
    return RankExit(
        exit_code=rank.code,
        error=_last(rank.tracebacks.errors) if rank.code != 0 else None,
        ended_by_launcher=ours,
        ended_at=rank.ended_at,
        order=order,
        tail=tuple(dict.fromkeys([*rank.said, *rank.tail])),
        kernel_said=log.oom_line if killed and (not log.oom_pids or rank.pid in log.oom_pids) else None,
        pid=rank.pid,
    )


class _Failed(NamedTuple):
    """The ranks that ended badly and not by SIGTERM, which a launcher may have answered by ending the others."""

    any: bool
    """Whether there is one."""
    first_at: float | None
    """When the first of them ended, in seconds since the epoch; None where no table shows it."""


def _failed(log: LogContents) -> _Failed:
    failed = [rank for rank in log.ranks.values() if rank.code not in {None, 0, -15}]
    return _Failed(bool(failed), min((rank.ended_at for rank in failed if rank.ended_at is not None), default=None))


def _ended_by_launcher(log: LogContents, rank: RankLines, failed: _Failed) -> bool:
    """Whether the launcher ended this rank: it says so, or it sent SIGTERM, and SIGKILL 30 s later, after another's end.

    SIGTERM is also what all ranks get after somebody ended the whole job.
    """
    if rank.pid is not None and rank.pid in log.closing:
        return True
    if rank.code == -signal.SIGTERM:
        return failed.any or rank.after_the_end
    if rank.code != -9 or rank.ended_at is None or failed.first_at is None:
        return False
    return rank.ended_at - failed.first_at >= GRACE_SECONDS


def is_passed_on(error: RankError) -> bool:
    """Whether a launcher passes on with it that a rank failed; `subprocess` raises the same type for a tool of the user's."""
    if error.type != "CalledProcessError":
        if error.type in LAUNCHERS_OWN or _ONE_FAILED.match(error.message):
            return True
        return not error.message and any(is_launchers(frame.file) or _joins(frame) for frame in error.stack)
    return "python" in error.message or not error.stack or any(is_launchers(frame.file) for frame in error.stack)


def _joins(frame: Frame) -> bool:
    """Whether a process waits here for those that it spawned: torch until 1.5 raises an exception with their errors below it."""
    return frame.function == "join" and frame.file.endswith("torch/multiprocessing/spawn.py")


def _last(errors: Sequence[RankError]) -> RankError | None:
    """The exception that ended a rank: its last one, with the first as its cause where they were told apart."""
    own = [error for error in errors if not is_passed_on(error)]
    if not own:
        return None
    last = own[-1]
    return replace(last, cause=own[0]) if len(own) > 1 and last.cause is None and own[0] != last else last

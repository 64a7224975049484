"""Job logs into what is known of each rank's end: any launcher's, a file a rank or all in one, cut anywhere."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.bounds import MOST_RANKS
from ddpdoctor.evidence.frames import is_launchers
from ddpdoctor.evidence.job_log import FailureLine, JobLog
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.logs import launchers
from ddpdoctor.logs.attempts import AttemptEnd, LogAttempts, failed_launcher
from ddpdoctor.logs.failure_signs import (
    ends_the_barrier,
    ends_the_training,
    explains_a_failure,
    form_of,
    is_of_a_job,
    shows_a_failure,
    shows_a_stall,
    shows_health,
    time_of,
)
from ddpdoctor.logs.log_contents import Crash, LogContents, RankLines, is_progress, possible_rank
from ddpdoctor.logs.log_lines import LogLine, lines_of
from ddpdoctor.logs.rank_ends import complete, is_passed_on, rank_exits

MAX_SAID = 60
MAX_LINE_CHARACTERS = 1000  # the comparison of two collectives by TORCH_DISTRIBUTED_DEBUG=DETAIL has up to 900
MAX_FAILURE_LINES = 400
SENT_BY_LAUNCHERS = {-signal.SIGTERM, -signal.SIGKILL}
MAX_PER_FORM = 3
LINES_OF_A_START = 100  # between the first and the last announcement of a rank at one start
MAX_RANKS_IN_RANGES = 1 << 16  # of all lines like `srun: error: node7: tasks 0-99999: Killed`, each rank once
MAX_NAMED_IN_RANGES = 1 << 20  # the same, each rank as often as a line names it

_LAUNCHERS_LINE = re.compile(
    r"torch/distributed/elastic/|torch/multiprocessing/spawn\.py|torch/distributed/(?:run|launcher)"
)
# of torch.multiprocessing; of Ray Train
_SPAWNED = re.compile(r"^-- Process (\d+) terminated with the following error:|^\[Rank (\d+)(?: Error Snippet)?\]:$")
_ANNOUNCED = re.compile(r"GLOBAL_RANK: (\d+), MEMBER: \d+/(\d+)")
_WORLD = re.compile(r"(?:world[_ ]size|WORLD_SIZE|num_processes)\s*[=:]\s*(\d+)")


def read_logs(paths: Sequence[Path], *, restarts: int = 0) -> Evidence:
    """What the logs at `paths` show of the job and of each rank, one line after the other, whatever their size.

    Of a job whose launcher started its ranks again, `restarts` times as far as is known, each attempt is read by itself.

    Raises:
        OSError: one of them cannot be read.
    """
    whole = LogContents()
    _read(paths, [whole], LogAttempts({}))
    went_on = whole.works_again and not whole.table.rows  # a table is the launcher's last word
    attempts = LogAttempts.between(whole.attempt_ends, restarts=restarts, went_on=went_on)
    if attempts.count == 1:
        return _evidence(whole, paths)
    parts = [LogContents(several_nodes=whole.several_nodes, world_size=whole.world_size) for _ in range(attempts.count)]
    _read(paths, parts, attempts)
    *earlier, last = (_evidence(part, paths) for part in parts)
    return replace(last, earlier=tuple(earlier))


def _read(paths: Sequence[Path], parts: Sequence[LogContents], attempts: LogAttempts) -> None:
    """Give each line to the contents of its attempt."""
    number = 0
    for path in paths:
        for part in parts:
            part.file = str(path)
        try:
            for line in lines_of(path):
                number += 1
                part = parts[attempts.of_line(str(path), number)]
                part.lines = number
                _take(part, line)
        except OSError as error:  # one of reading, and not of opening, names no file
            error.filename = str(path)
            raise
        for part in parts:
            for rank in part.ranks.values():
                rank.tracebacks.close()
            part.spawned = None


def _evidence(log: LogContents, paths: Sequence[Path]) -> Evidence:
    handled = complete(log)
    return Evidence(
        job=(_job(log, paths, handled),),
        ranks=tuple(
            RankFacts(rank=number, host=log.ranks[number].host, facts=(end,)) for number, end in rank_exits(log).items()
        ),
        notes=(*_left_out(log),),
    )


def _take(log: LogContents, line: LogLine) -> None:
    text = line.text
    if not log.of_a_job and (line.marked or line.collected or is_of_a_job(text)):
        log.of_a_job = True
    if line.suspect and explains_a_failure(text) and len(log.remarks) < MAX_SAID:
        log.remarks.append(text.strip()[:MAX_LINE_CHARACTERS])
    if found := _ANNOUNCED.search(text):
        _announce(log, int(found[1]), int(found[2]))
    if line.suspect and (number := launchers.crash_of(text)) is not None:
        log.crashes.setdefault(possible_rank(line.rank), Crash(signal=number, line=log.lines))
    if line.suspect and (launcher := failed_launcher(text)) is not None:
        log.attempt_ends.append(AttemptEnd(log.file, log.lines, launcher))
        log.works_again = False
    if line.rank is None and _of_launcher(log, text):
        return
    if found := _SPAWNED.match(text):
        log.spawned = int(found[1] or found[2])
        log.of(line.rank).tracebacks.close()
        return
    speaker = possible_rank(log.spawned if line.rank is None and log.spawned is not None else line.rank)
    who = log.of(speaker)
    sign = line.suspect and shows_a_failure(text)
    before = len(who.tracebacks.errors)
    if not sign and not line.marked and not who.tracebacks.is_code(text) and who.goes_on(text):
        who.tracebacks.close()
        who.tracebacks.cut.clear()
        who.survived, who.survived_said = len(who.tracebacks.errors), len(who.said)
    in_traceback = who.tracebacks.feed(text, marked=line.marked)
    sign = sign and not (in_traceback and who.tracebacks.ignored)
    if not (sign or in_traceback or log.works_again) and (log.attempt_ends or line.marked):
        log.works_again = who.works_as_before(text, again=bool(log.attempt_ends))
    if who.tracebacks.errors[before:] or (in_traceback and who.first_error is None):
        who.first_error = log.lines if who.first_error is None else who.first_error
    log.at_work = log.at_work or (not sign and shows_health(text))
    if not sign and ends_the_training(text):
        log.signs_before_end = len(log.failure_lines)
    if sign:
        who.first_error = log.lines if who.first_error is None else who.first_error
        who.after.clear()
        _remember(log, who, speaker, line)
    elif log.stalls and not in_traceback and (is_progress(text) or ends_the_barrier(text, log.stalls)):
        log.forget_stalls()
    if not in_traceback and text.strip():
        who.tail.append(text[:MAX_LINE_CHARACTERS])
    if log.world_size is None and (match := _WORLD.search(text)):
        log.world_size = possible_rank(int(match[1]))


def _announce(log: LogContents, rank: int, size: int) -> None:
    """Take the announcement of a rank; one that comes long after the others, or after all of them, is of another start."""
    if log.lines - log.announced_at > LINES_OF_A_START or len(log.announced) >= size or log.failure_lines:
        log.announced.clear()
    log.announced.append(rank)
    log.announced_at, log.world_size = log.lines, size


def _remember(log: LogContents, who: RankLines, rank: int | None, line: LogLine) -> None:
    text = line.text.strip()[:MAX_LINE_CHARACTERS]
    if shows_a_stall(text):
        log.stalls.add(text)
    if len(who.said) < MAX_SAID and text not in who.said:
        who.said.append(text)
    key = (rank, form_of(text)[:200])
    log.forms[key] = log.forms.get(key, 0) + 1
    if log.forms[key] <= MAX_PER_FORM and len(log.failure_lines) < MAX_FAILURE_LINES:
        moment = time_of(line.stamp, line.text)
        at, clock = moment if moment is not None else (None, "")
        log.failure_lines.append(
            FailureLine(text=text, rank=rank, number=line.number, file=log.file, at=at, clock=clock)
        )


def _of_launcher(log: LogContents, text: str) -> bool:
    """Take a line of a launcher, a scheduler or the kernel; True where it was one and shows nothing of the job's own."""
    found = [*launchers.events_of(text)]
    for event in found:
        _take_event(log, event, text)
    if (rank := launchers.rank_of_mpi(text)) is not None:
        log.mpi_rank, log.launcher = rank, log.launcher or "mpirun"
    elif log.mpi_rank is not None and (code := launchers.code_of_mpi(text)) is not None:
        log.of(log.mpi_rank).code = code
        log.mpi_rank = None
    if log.table.take(text):
        log.launcher = "torchrun"
        nobody = log.of(None).tracebacks
        nobody.close()
        for row in log.table.rows[log.rows_counted :]:
            row.errors_before = len(nobody.errors)
        log.rows_counted = len(log.table.rows)
        return True
    if _LAUNCHERS_LINE.search(text) and not text.startswith(" "):
        log.launcher = "torchrun"
        if shows_a_failure(text):
            _remember(log, log.of(None), None, LogLine(None, text))
        return _is_no_exception(text)
    if found and shows_a_failure(text):
        _remember(log, log.of(None), None, LogLine(None, text))
    return bool(found) and _is_no_exception(text)


def _is_no_exception(text: str) -> bool:
    return re.match(r"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b", text) is None


def _take_event(log: LogContents, event: launchers.Event, text: str) -> None:
    match event:
        case launchers.Closing(pid=pid):
            log.closing.add(pid)
        case launchers.OutOfMemory(pids=pids):
            log.oom_line = log.oom_line or " ".join(text.split())[:MAX_LINE_CHARACTERS]
            log.oom_pids.update(pids)
        case launchers.EndedFromOutside(signal=number):
            log.ended_by = log.ended_by or text.strip()[:MAX_LINE_CHARACTERS]
            log.signal = log.signal if log.signal is not None else number
        case launchers.SeveralNodes():
            log.several_nodes = True
        case launchers.LocalRankEnded(launcher=launcher):
            log.launcher = launcher
            log.local.append(event)
        case launchers.SomebodyEnded(code=code, launcher="mpirun") if log.mpi_rank is not None:
            log.of(log.mpi_rank).code, log.mpi_rank = code, None
        case launchers.SomebodyEnded(code=code, launcher=launcher):
            log.launcher = log.launcher or launcher
            if launcher is None and code in SENT_BY_LAUNCHERS and (log.closing or log.local):
                return  # a shell's `Killed`, after the launcher began to end all processes
            if all(code != end.exit_code for end in log.ends):
                log.ends.append(RankExit(exit_code=code))
        case launchers.RankEnded(rank=rank, code=code, launcher=launcher, pid=pid):
            log.launcher = log.launcher or launcher
            if launcher != "Slurm" or log.launcher == "Slurm":  # a task may be a torchrun, and no rank
                _end(log, log.of(rank), code, pid)
        case launchers.RanksEnded(ranks=ranges, code=code, launcher=launcher):
            log.launcher = log.launcher or launcher
            if log.launcher == launcher:
                for ranks in ranges:
                    _take_range(log, ranks, code)


def _take_range(log: LogContents, named: range, code: int) -> None:
    """All ranks of a range ended alike: those of which nothing else is known are one object."""
    ranks = range(named.start, min(named.stop, MOST_RANKS))[: MAX_NAMED_IN_RANGES - log.named_in_ranges]
    log.named_in_ranges += len(ranks)
    log.left_out_of_ranges += max(0, named.stop - named.start) - len(ranks)
    alike = RankLines(of_a_range=True)
    _end(log, alike, code, None)
    for rank in ranks:
        known = log.ranks.get(rank)
        if known is None:
            if log.ranks_in_ranges >= MAX_RANKS_IN_RANGES:
                log.left_out_of_ranges += 1
                continue
            log.ranks_in_ranges += 1
        if known is None or known.of_a_range:
            log.ranks[rank] = alike
        else:
            _end(log, known, code, None)


def _end(log: LogContents, rank: RankLines, code: int, pid: int | None) -> None:
    rank.code, rank.pid, rank.after_the_end = code, pid, log.ended_by is not None


def _is_of_the_end(error: RankError, log: LogContents) -> bool:
    """Whether an exception of no rank passes on that a rank failed, or is of the launcher that somebody asked to end."""
    frames = [frame for frame in error.stack if is_launchers(frame.file)]
    handles_a_signal = any(frame.function.endswith("_handler") and "sig" in frame.function for frame in frames)
    return (log.signal is not None and bool(frames)) or handles_a_signal or is_passed_on(error)


def _left_out(log: LogContents) -> Iterator[str]:
    """Said of ranks that a launcher named in ranges and that were not taken."""
    if log.left_out_of_ranges:
        yield (
            f"not used: {log.left_out_of_ranges:,} of the ranks in ranges such as `tasks 0-99`: at most "
            f"{MAX_RANKS_IN_RANGES:,} ranks of ranges are read, and none from {MOST_RANKS:,} on"
        )


def _job(log: LogContents, paths: Sequence[Path], handled: Sequence[RankError]) -> JobLog:
    nobody = log.ranks.get(None, RankLines())
    cut = [error for error in nobody.tracebacks.cut if not any(is_launchers(frame.file) for frame in error.stack)]
    return JobLog(
        files=tuple(map(str, paths)),
        lines=log.lines,
        launcher=log.launcher,
        world_size=log.world_size,
        errors=tuple(error for error in nobody.tracebacks.errors if not _is_of_the_end(error, log)),
        cut=tuple(cut),
        ends=tuple(log.ends),
        said=tuple(dict.fromkeys([*nobody.said, *([log.oom_line] if log.oom_line else [])])),
        failure_lines=tuple(log.failure_lines),
        remarks=tuple(log.remarks),
        ended_by=log.ended_by,
        signal=log.signal,
        closed=len(log.closing),
        out_of_memory=log.oom_line,
        handled=tuple(handled),
        at_work=log.at_work,
        announced=tuple(log.announced),
        of_a_job=log.of_a_job,
    )

"""What a job left behind: recorder dumps, logs and saved cases, in any mix of files and directories."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path

from ddpdoctor import case
from ddpdoctor.analysis.crashes.failure import error_text
from ddpdoctor.errors import DdpdoctorError, UndecidedError, UsageError
from ddpdoctor.evidence import Evidence, Missing, RankFacts, by_rank
from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.launch import EnvOverwrites
from ddpdoctor.evidence.merge import join
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.grouping import grouped
from ddpdoctor.logs.csv_exports import csv_export
from ddpdoctor.logs.encoded_files import is_encoded
from ddpdoctor.logs.job_log import read_logs
from ddpdoctor.logs.log_lines import rank_of_log
from ddpdoctor.logs.raw_lines import head_of
from ddpdoctor.model import group_ranks
from ddpdoctor.ranks.fr_dump_files import Dump, looks_like_dump, read_dumps
from ddpdoctor.source.stack_lines.context import source_of
from ddpdoctor.source.stack_lines.env_overwrites import overwrites_of

HEAD_BYTES = 4096
ZEROS_PART = 10  # a log may hold some garbage; of a binary file more than a tenth is zeros
CONTROLS_PART = 20  # or more than a twentieth is other characters that no terminal shows: of random bytes a tenth is
_CONTROLS = bytes({*range(1, 32), 127} - {*b"\a\b\t\n\f\r\v\x1b"})
_ZIP = b"PK\x03\x04"
_ZSTD = b"\x28\xb5\x2f\xfd"
_UNPACK = "it is compressed: unpack it (`{command}`), and give the result"
_COMMANDS = {
    b"\x1f\x8b": "gunzip --keep {file}",
    b"BZh": "bunzip2 --keep {file}",
    b"\xfd7zXZ": "xz --decompress --keep {file}",
    _ZSTD: "zstd --decompress {file}",
}
"""How to unpack a file that is not read as it is, by its first bytes."""
_ARCHIVES = {".zip": "unzip {file}", **dict.fromkeys((".tar", ".tgz", ".txz", ".tbz2"), "tar -xf {file}")}
"""How to unpack an archive, by a suffix of its name: `dumps.tar.gz` has two."""
LOG_SUFFIXES = {".log", ".out", ".err"}
NO_LOGS = {
    ".md",
    ".rst",
    ".py",
    ".html",
    ".toml",
    ".yaml",
    ".yml",
    ".cfg",
    ".ini",
    ".ipynb",
    ".c",
    ".cpp",
    ".cu",
    ".h",
    ".csv",
}
MAX_FILES = 200_000
SHOWN_COMPLAINTS = 20
SHOWN_HANDLED = 3


class FileKind(Enum):
    """What a file looks like that was given."""

    CASE = "case"
    """A saved case."""
    DUMP = "dump"
    """A flight-recorder dump."""
    LOG = "log"
    """A text that may be the log of a job."""
    OTHER = "other"
    """Nothing of a job."""
    EMPTY_FOLDER = "empty folder"


def gather(paths: Sequence[Path]) -> Evidence:
    """The evidence in `paths`: what cannot be read is named in the notes, with what is wrong with it.

    Raises:
        UsageError: a path does not exist, or a log stops being readable.
        UndecidedError: nothing in the paths can be read; each file is named with what is wrong.
    """
    found = grouped(_by_kind(paths))
    others = found.get(FileKind.OTHER, ())
    complaints = [f"{path}: there is no file in it" for path in found.get(FileKind.EMPTY_FOLDER, ())]
    complaints += _passed_over(others, paths)
    parts = [part for file in found.get(FileKind.CASE, ()) for part in _case(file, complaints)]
    parts += _records(found.get(FileKind.DUMP, ()), complaints)
    parts += _logs(found.get(FileKind.LOG, ()), complaints)
    if not parts:
        complaints = complaints or _passed_over(others, others)
        raise UndecidedError(
            "none of the files can be diagnosed",
            details=_shortened(complaints),
            hint="give flight-recorder dumps, job logs, or a case that `ddpdoctor watch --case` saved; what nvidia-smi, ibstat, "
            "ulimit or df show of a host, `ddpdoctor env` reads there itself",
        )
    joined = join(parts)
    unused = (f"not used: {line}" for line in _shortened(complaints))
    notes = (*joined.notes, *_without_lines(joined), *_handled(joined), *unused)
    return Evidence(
        job=(*joined.job, *_source(joined), *_overwrites(joined)),
        ranks=joined.ranks,
        missing=(*joined.missing, *_missing(joined)),
        notes=notes,
        undecided=(*joined.undecided, *_shows_nothing(joined)),
        about_job=True,
        meta=joined.meta,
        earlier=tuple(replace(attempt, job=(*attempt.job, *_source(attempt))) for attempt in joined.earlier),
    )


def _shows_nothing(evidence: Evidence) -> Iterator[str]:
    """Said of a log alone that shows neither a failure nor a job at work."""
    log = evidence.one(JobLog)
    if log is None or log.at_work or log.failure_lines or log.ends or log.ended_by or log.errors or log.cut:
        return
    ends = [fact for rank in evidence.ranks for fact in rank.facts]
    if len(evidence.job) != 1 or any(
        not isinstance(end, RankExit) or end.exit_code is not None or end.error for end in ends
    ):
        return
    if log.closed:
        yield "the launcher ended its processes, and the log does not show which of them failed: give more of it"
    elif not log.announced:
        yield "the log shows neither a failure nor a job at work or at a clean end: give more of it"
    elif len({*log.announced}) == len(log.announced):
        announced = group_ranks(sorted(log.announced))
        of = f" of {log.world_size}" if log.world_size else ""
        themselves = "themselves" if len(log.announced) > 1 else "itself"
        yield f"the log ends while the job starts: {announced}{of} announced {themselves}"


def _handled(evidence: Evidence) -> Iterator[str]:
    """Said of exceptions in a log that ended nobody."""
    log = evidence.one(JobLog)
    for error in (log.handled if log is not None else ())[:SHOWN_HANDLED]:
        place = users_frame(error.stack)
        at = f" ({place.file}:{place.line})" if place is not None else ""
        yield f"this logged exception was caught, and the rank kept running: {error_text(error)}{at}"


def _without_lines(evidence: Evidence) -> Iterator[str]:
    """Said of dumps without stacks: those in JSON, and those of jobs that switched stacks off."""
    records = evidence.per_rank(FlightRecord)
    stackless = [entry.rank for entry in records or () if len(entry.value) and not entry.value.frames]
    unseen = [rank for rank in stackless if rank not in {entry.rank for entry in evidence.per_rank(Stacks) or ()}]
    if unseen:
        yield (
            f"the dumps of {group_ranks(unseen)} contain no lines of code: PyTorch writes them into pickled dumps "
            "(TORCH_NCCL_DUMP_ON_TIMEOUT=1) unless TORCH_INCLUDE_STACK_TRACE=0 is set, and never into JSON; a case of "
            "`ddpdoctor watch --case` contains them"
        )


def _by_kind(paths: Iterable[Path]) -> Iterator[tuple[FileKind, Path]]:
    for path in paths:
        _refuse_what_is_not_there(path)
        files = [*_files(path)]
        yield from ((_kind_of(file, named=file == path), file) for file in files)
        if not files:
            yield FileKind.EMPTY_FOLDER, path


def _kind_of(file: Path, *, named: bool) -> FileKind:
    if file.name == case.CASE_FILE:
        return FileKind.CASE
    head = _head(file)
    if _archive_command(file, head) is not None:
        return FileKind.OTHER
    if is_encoded(head):
        return FileKind.LOG if _is_encoded_log(file, named=named) else FileKind.OTHER
    if _holds_a_case(head):
        return FileKind.CASE
    if looks_like_dump(head):
        return FileKind.DUMP
    may_be_a_log = file.suffix.lower() not in NO_LOGS or csv_export(head.partition(b"\n")[0].decode("utf-8", "replace"))
    return FileKind.LOG if may_be_a_log and _is_text(head) else FileKind.OTHER


def _is_encoded_log(file: Path, *, named: bool) -> bool:
    """Whether a compressed or UTF-16 file is read as a log: of those in a folder, which may be a data set, by its name too."""
    head = _plain_head(file)
    by_name = named or not LOG_SUFFIXES.isdisjoint(map(str.lower, file.suffixes))
    return by_name and _is_text(head) and not _holds_a_case(head) and not looks_like_dump(head)


def _holds_a_case(head: bytes) -> bool:
    return b'"ddpdoctor.case/' in head


def is_text(file: Path) -> bool:
    """Whether a file reads like a text, as logs do, perhaps compressed or in UTF-16: it is not empty and not binary."""
    return _is_text(_plain_head(file))


def _is_text(head: bytes) -> bool:
    if not head or head.startswith(tuple(_COMMANDS)) or head.count(b"\0") * ZEROS_PART >= len(head):
        return False
    first_line = head.partition(b"\n")[0]  # of a log with garbage in it this is a text
    return _is_shown(head) or _is_shown(first_line)


def _is_shown(data: bytes) -> bool:
    """Whether a terminal shows nearly all of these characters; not where there are none."""
    return (len(data) - len(data.translate(None, _CONTROLS))) * CONTROLS_PART < len(data)


def _passed_over(files: Sequence[Path], named: Sequence[Path]) -> list[str]:
    """The files of which nothing is read, with the reason; those that nobody has named only where it helps."""
    return [f"{file}: {why}" for file in files if (why := _why_not_read(file, named=file in named))]


def _why_not_read(file: Path, *, named: bool) -> str:
    """Why nothing is read from a file; of one in a folder only where the user can do something about it."""
    head = _head(file)
    command = _archive_command(file, head) or next(
        (command for mark, command in _COMMANDS.items() if head.startswith(mark)), None
    )
    if command is not None:
        return _UNPACK.format(command=command.format(file=shlex.quote(str(file))))
    return ("neither a dump, nor a log, nor a case" if head else "it is empty") if named else ""


def _archive_command(file: Path, head: bytes) -> str | None:
    """How to unpack an archive; None of other files, such as a checkpoint named `model.pth.tar`."""
    named = next((suffix for suffix in map(str.lower, file.suffixes) if suffix in _ARCHIVES), None)
    if named is None or (not head.startswith(_ZIP if named == ".zip" else tuple(_COMMANDS)) and not _is_tar(head)):
        return None
    return _ARCHIVES[named]


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"  # POSIX.1-1988, section 10.1.1


def _refuse_what_is_not_there(path: Path) -> None:
    """A pipe is refused too: what it gives to whoever looks at its first bytes is lost to whoever reads it."""
    if path == Path("-") and not path.exists():
        raise UsageError(
            "diagnose reads files, not standard input (-)", hint="write it to a file: `kubectl logs POD > job.log`"
        )
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{path} does not exist", hint="give a file or a directory that the job wrote") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UsageError(
            f"{path} is neither a file nor a directory",
            hint="write the output of the pipe to a file, and give that file",
        )


def _files(path: Path) -> Iterator[Path]:
    """The files under `path`, in order; of a case directory only the cases, which already hold the rest.

    A directory that cannot be listed stands for itself: reading it as a file says why.
    """
    waiting = [path]  # and no recursion: folders may be nested deeper than Python's stack
    while waiting:
        here = waiting.pop()
        if not here.is_dir():
            yield here
            continue
        cases = [file for file in (here / case.CASE_FILE, *sorted(here.glob(case.CASES_OF_NODES))) if file.is_file()]
        if cases:
            yield from cases
            continue
        try:
            children = sorted(here.iterdir())
        except OSError:
            yield here
            continue
        if len(children) > MAX_FILES:
            raise UsageError(f"{here} has more than {MAX_FILES} entries", hint="give the files of one job")
        waiting += [child for child in reversed(children) if _counts(child)]


def _counts(child: Path) -> bool:
    """Whether an entry of a folder is looked at: no hidden one, no link to a folder, no pipe."""
    if child.name.startswith(".") or (child.is_symlink() and child.is_dir()):
        return False
    return child.is_dir() or child.is_file()


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(HEAD_BYTES)
    except OSError:
        return b"\x80"  # reading it again as a dump says why it cannot be read


def _plain_head(file: Path) -> bytes:
    try:
        return head_of(file, HEAD_BYTES)
    except OSError:
        return b""


def _case(file: Path, complaints: list[str]) -> list[Evidence]:
    try:
        return [case.load(file)]
    except DdpdoctorError as error:
        complaints.append(error.message)
        return []


def _records(files: Sequence[Path], complaints: list[str]) -> list[Evidence]:
    """The records of all ranks; of two dumps of one rank the one that holds stacks, else the longer."""
    best: dict[int, Dump] = {}
    for dump in read_dumps(files):
        if isinstance(dump, UndecidedError):
            complaints.append(dump.message)
            continue
        other = best.get(dump.rank)
        if other is None or _worth(dump.record) > _worth(other.record):
            best[dump.rank] = dump
        if other is not None:
            loser = other if best[dump.rank] is dump else dump
            complaints.append(f"{loser.path}: rank {dump.rank} has a more complete dump, {best[dump.rank].path}")
    if not best:
        return []
    ranks = (RankFacts(rank=rank, host="", facts=(dump.record,)) for rank, dump in sorted(best.items()))
    return [Evidence(ranks=tuple(ranks))]


def _logs(files: Sequence[Path], complaints: list[str]) -> list[Evidence]:
    """What the logs say, those of one file each first: a rank's own file tells more than the launcher's."""
    readable = []
    for file in files:
        if os.access(file, os.R_OK):
            readable.append(file)
        else:
            complaints.append(f"{file}: it cannot be read")
    if not readable:
        return []
    try:
        read = read_logs(sorted(readable, key=lambda file: rank_of_log(file) is None))
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from None
    log = read.one(JobLog)
    if log is not None and not any((log.of_a_job, log.failure_lines, log.ends, log.errors, log.cut, read.ranks)):
        complaints += [f"{file}: no line of it is of a training job" for file in readable]
        return []
    return [read]


def _worth(record: FlightRecord) -> tuple[bool, int]:
    return bool(record.frames), len(record)


def _source(evidence: Evidence) -> tuple[SourceCode, ...]:
    """Where the latest lines of all ranks stand in the source, if it is at hand and nobody has read it yet."""
    if evidence.one(SourceCode) is not None:
        return ()
    records = by_rank(evidence.per_rank(FlightRecord)).values()
    distinct = {id(record.frames): record.frames for record in records}
    ends = by_rank(evidence.per_rank(RankExit)).values()
    raised = {frame for end in ends for frame in (*(end.error.stack if end.error else ()), *end.native_stack)}
    source = source_of({frame for frames in distinct.values() for frame in frames} | raised)
    return (source,) if source is not None else ()


def _overwrites(evidence: Evidence) -> tuple[EnvOverwrites, ...]:
    """What the files in which ranks raised errors do to the address of the rendezvous, if they are at hand."""
    if evidence.one(EnvOverwrites) is not None:
        return ()
    errors = [entry.value.error for entry in evidence.per_rank(RankExit) or () if entry.value.error is not None]
    found = overwrites_of(frame for error in errors for frame in error.stack)
    return (found,) if found is not None else ()


def _missing(evidence: Evidence) -> tuple[Missing, ...]:
    if evidence.per_rank(FlightRecord) is not None:
        return ()
    return (Missing(kind="FlightRecord", reason="none of the files is one"),)


def _shortened(complaints: Sequence[str]) -> list[str]:
    shown = list(complaints[:SHOWN_COMPLAINTS])
    if len(complaints) > SHOWN_COMPLAINTS:
        shown.append(f"and {len(complaints) - SHOWN_COMPLAINTS} more files")
    return shown

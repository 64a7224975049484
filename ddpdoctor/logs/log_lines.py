"""Lines of job logs without what launchers and collectors put before them, and the rank that each is of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path

from ddpdoctor.logs.csv_exports import CsvExport, csv_export
from ddpdoctor.logs.joined_lines import separated
from ddpdoctor.logs.raw_lines import RawLine, is_newest_first, raw_lines, sample_of
from ddpdoctor.logs.seen_prefixes import SeenPrefixes
from ddpdoctor.logs.tracebacks import HEAD
from ddpdoctor.logs.wrapped_lines import QUOTE

PLAIN_CHARACTERS = 4000  # Python refuses to read a number of more digits than 4300
LARGEST = "9" * 18
_LONG_NUMBER = re.compile(r"\d{19,}")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_TIME = re.compile(
    r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?(?: (?:stdout|stderr) [FP]| \|(?= \[))? ?"
)
# `ERROR 04-15 00:31:11 [core.py:396] `, which vLLM puts before each line of a traceback
_LOGGER = re.compile(
    r"^(?:ERROR|WARNING|INFO|CRITICAL) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) \[?[\w./-]{1,80}:\d+\] ?(?=Traceback|  |"
    r"[\w.]+(?:Error|Exception))"
)
# `E0422 05:07:49.013000 204 torch/distributed/elastic/multiprocessing/api.py:732] `, which torch puts before each line
_LOGGER_OF_TORCH = re.compile(
    r"^[EW]\d{4} (?P<time>\d\d:\d\d:\d\d\.\d{1,9}) (?:\d{1,19} ){1,2}(?:[\w.-]{1,80}/){1,12}\w{1,40}\.py:\d{1,9}\] "
    r"(?=Traceback \(most|  |(?:\w{1,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception)(?::|$))"
)
_STREAM = re.compile(r"^(?:stderr|stdout): ")
_TEE = re.compile(r"^\[(?!rank)[A-Za-z_.-]+?(\d+)(?:\|\d+)?\]: ?")
_RAY = re.compile(
    r"^\((?:[\w<>.:-]{1,80} |[\w.-]{1,60}, rank=\d+, )?(?:rank=(?P<rank>\d+) )?(?:(?P<pid>pid=\d+)|raylet)(?:, ip=[\w.:]+)?\)"
    r"(?: \[repeated \d+x across cluster\])? ?"
)
_REPEATED_BY_RAY = re.compile(r" \[repeated \d+x across cluster\]$")
# `node03: `, `worker-1  | `, `[pod/train-0/pytorch] `, `job/0 `: who collected the lines
_LABEL = re.compile(
    r"^(?:\[[\w./-]{1,80}\]|[\w./-]{1,80}(?: \[std(?:out|err)\]|: ?| *\|)|[\w.-]{1,60}/\d+ )\s*"
    r"(?=\[rank\d+\]:|\[default\d+\]:|Traceback \(most|  File \"|torch\.distributed\.\w+Error|\[[EWF] ?\d* |[EWI]\d{4} \d\d:|"
    r"\[\d{4}-\d\d-\d\d \d\d:)"
)
# `[pod/train-0/pytorch] ` of `kubectl logs --prefix`, `worker-1  | ` of docker compose, ` | ` of a table; behind it the time
_LABEL_OF_TIME = re.compile(
    r"^(?:\[\w+/[\w./-]{1,80}\]|[\w./-]{1,80} *\|| {0,8}\|) *(?=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"
)
# of Docker and Fluent Bit, of CloudWatch and Elastic, of Google Cloud, of loggers, of programs that record a program's lines
_JSON_KEYS = ("log", "message", "textPayload", "msg", "data")
_JSON_ERRORS = frozenset(
    {"error", "exc_info", "exc_text", "exception", "stack_trace"}
)  # of loggers, beside the message
_RANK = re.compile(r"^\[(?:rank|RANK |Rank (?!\d+\]:$))(\d+)\]:? ?(?!NCCL|Watchdog|Some|To avoid)")
# what C++ writes may stand behind a progress bar's unfinished line
_RANK_OF_CPP = re.compile(r"\[rank(\d+)\]:(?=\[[EFIW]\d* )")
# until torch 2.1, in the store's barrier, and of what C++ says when it aborts; the rank of another group than the default one
# is no rank of the job
_RANK_OF_WATCHDOG = re.compile(
    r"(?=\[[EF] ProcessGroupNCCL\.cpp:\d+\] \[(?:PG [^\]]{0,60})?Rank (\d+)\])|"
    r"(?=Waiting in store based barrier to initialize process group for rank: (\d{1,9}), )|"
    r"(?=^ *what\(\): +\[(?:PG [^\]]{0,60}\(default_pg\) )?Rank (\d+)\])|(?=^\[PG (?:ID )?0 [^\]]{0,60}?Rank (\d+)\] )"
)
_TWO_IN_ONE = re.compile(r"(?<=.)(?=\[rank\d+\]: )")
# `| 12/391 [00:41<00:00,  9.43it/s, loss=2.6]ERROR: ...`: what follows was written behind the bar's unfinished line
_END_OF_A_BAR = re.compile(r"(?:it/s|s/it)[^\[\]]{0,400}\](?=\S)")
# `[1,3]<stderr>: ` of mpirun, `[1,mpirank:3,algo-1]<stderr>:` of SageMaker, `[3]<stderr>:` of horovodrun, perhaps behind a date
_MPI = re.compile(
    r"^(?:\w{3} \w{3} +\d{1,2} \d\d:\d\d:\d\d \d{4})?\[(?:\d+,(?:mpirank:)?(?=\d+[\],])|(?=\d+\]<))(\d+)(?:,[\w.-]{1,80})?\]"
    r"(?:<std(?:out|err)>)?: ?"
)
# `[rank=3] || `, `4f2a90cc [rank=3] || `: of a platform that collects the containers of a job
_RANK_OF_CONTAINER = re.compile(r"^(?:[0-9a-f]{6,64} )?\[rank=(\d{1,9})\] (?:\|\| )?")
_RANK_IN_PREFIX = re.compile(r"\b[Rr]ank[ =:](\d{1,9})\b")  # of a prefix that only tracebacks of this log have shown
_SLURM = re.compile(r"^ *(\d+): ?")
_MPICH = re.compile(r"^\[(\d{1,9})\](?: |$)")  # of `mpiexec -l`; a shell writes `[1] ` before the only job that it has
_BY_SLURM_ITSELF = re.compile(rb"(?:srun|slurmstepd): ")
LABELLED_PART = 2  # before the first labelled line may stand as many of the batch script
_PATH_OF_TORCHRUN = re.compile(r"attempt_(\d+)/(\d+)/std(?:out|err)\.log$")
_PATH_OF_RANK = re.compile(r"(?:^|[^a-z])rank[_\-.]?(\d+)(?!\d)", re.IGNORECASE)
_PATH_OF_SLURM = re.compile(r"slurm-\d+[_.-](\d+)\.(?:out|err|log)$")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line as its rank wrote it."""

    rank: int | None
    """The rank; None where neither the line nor the file's name shows it."""
    text: str
    """The line without prefixes and escape sequences."""
    marked: bool = False
    """Whether torch itself put the rank before it, as it does with the traceback that ends a rank."""
    number: int = 0
    """The line's number in its file, from 1."""
    stamp: str = ""
    """The time that stood before the line, as it was written; empty where there was none."""
    suspect: bool = True
    """Whether it holds a word that lines of failures hold."""
    collected: bool = False
    """Whether a launcher or collector with several processes put a mark before it."""


@dataclass(frozen=True, slots=True)
class _File:
    """What is known of one log as a whole."""

    by_name: int | None
    """The rank that its name shows."""
    label: re.Pattern[str] | None
    """How the launcher put the task's number before every line; None where it did not."""
    seen: SeenPrefixes = field(default_factory=SeenPrefixes)
    """The prefixes that its lines have shown so far."""
    export: CsvExport | None = None
    """The table that it is; None where its lines are as they were written."""


def lines_of(path: Path) -> Iterator[LogLine]:
    """The lines of the log at `path`, one at a time: the file may be larger than memory, and hold any bytes.

    Of a large log only the lines near a word that failures use are read, beside the first and the last ones. A log that is
    printed newest first is read from its end.
    """
    sample = sample_of(path)
    head = sample[0].decode("utf-8", "replace") if sample else ""
    file = _File(by_name=rank_of_log(path), label=_label_of(sample), export=csv_export(head))
    for raw in raw_lines(path, backwards=is_newest_first(sample)):
        yield from _lines(raw, file)


def rank_of_log(path: Path) -> int | None:
    """The rank that a log's name tells: torchrun's `attempt_0/3/stderr.log`, `rank_3.log`, Slurm's `slurm-4242_3.out`."""
    name = path.as_posix()
    if found := _PATH_OF_TORCHRUN.search(name):
        return int(found[2])
    found = (
        _PATH_OF_RANK.search(path.name) or _PATH_OF_SLURM.search(path.name) or _PATH_OF_RANK.search(path.parent.name)
    )
    return int(found[1]) if found else None


def _lines(raw: RawLine, file: _File) -> Iterator[LogLine]:
    text = raw.data.decode("utf-8", "replace")
    if len(text) > PLAIN_CHARACTERS:
        text = _LONG_NUMBER.sub(LARGEST, text)
    if file.export is not None:
        text = file.export.line(text)
    for each in _unpacked(text):
        yield from _ranks_lines(each, raw, file)


def _ranks_lines(text: str, raw: RawLine, file: _File) -> Iterator[LogLine]:
    """The line, or its parts where two ranks have written into one."""
    text = QUOTE.sub("", text)
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "it/s" in text or "s/it" in text:
        text = _END_OF_A_BAR.sub("\\g<0>\n", text)
    for part in separated(text).split("\n"):
        for each in _TWO_IN_ONE.split(part) if part.count("[rank") > 1 else (part,):
            yield _line(each, raw, file)


def _unpacked(text: str) -> list[str]:
    """The lines that a collector, a logger, or one after the other has put into a JSON object, else the text as it is.

    These are the lines of the message, then those of the exceptions that stand beside it. An empty line ends an entry of
    several lines, so that a traceback does not take in the next entry.
    """
    if not (text.startswith("{") and (HEAD in text or any(f'"{key}"' in text for key in _JSON_KEYS))):
        return [text]
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    inner = [item for value in entry.values() if isinstance(value, dict) for item in value.items()]
    values: dict[str, str] = {}
    for key, value in (*entry.items(), *inner):
        if isinstance(value, str):
            values.setdefault(key, value.encode("utf-8", "replace").decode())  # half of a surrogate pair is no text
    message = next((values.pop(key) for key in _JSON_KEYS if key in values), "")
    errors = [value for key, value in values.items() if key in _JSON_ERRORS or HEAD in value]
    messages = [message, *(error for error in errors if error.strip() not in message)]
    lines = [line for part in messages for each in part.splitlines() for line in _unpacked(each)]
    if not lines:
        return [""] if message else [text]
    return lines if len(lines) == 1 else [*lines, ""]


def _line(text: str, raw: RawLine, file: _File) -> LogLine:
    rank, stamp, collected, teed = file.by_name, "", False, None
    if file.label is not None and (found := file.label.match(text)):
        rank, text = int(found[1]), text[found.end() :]
    text, stamp = _without_time(_LABEL_OF_TIME.sub("", text, count=1), file.seen)
    text = _without_label(text, file.seen)
    if found := _MPI.match(text):
        rank, text = int(found[1]) if rank is None else rank, text[found.end() :].replace(found[0].strip(), "")
    if found := _RANK_OF_CONTAINER.match(text):
        collected, rank, text = True, int(found[1]) if rank is None else rank, text[found.end() :]
    if found := _TEE.match(text):
        teed, text = int(found[1]), text[found.end() :]
        rank = file.seen.rank_of(teed) if rank is None else rank
    if text[:1] == "(" and (found := _RAY.match(text)):
        collected, text = True, _REPEATED_BY_RAY.sub("", text[found.end() :], count=1)
        if rank is None:
            rank = int(found["rank"]) if found["rank"] else file.seen.rank_of_worker(found["pid"] or "", text)
        text, inner = _without_time(text, file.seen)
        stamp = inner or stamp
    elif text.startswith("- ("):
        file.seen.rank_of_worker("", text)
    text, prefix = file.seen.without_prefix(_STREAM.sub("", _without_label(text, file.seen), count=1))
    stamp = stamp or prefix
    if in_prefix := _RANK.match(prefix):
        rank = int(in_prefix[1])
    elif found := _RANK_IN_PREFIX.search(prefix):
        rank = int(found[1])
    marked = _RANK.match(text) or _RANK_OF_CPP.search(text)
    if marked:
        rank, text = int(marked[1]), text[marked.end() :]
        if teed is not None:
            file.seen.learn_rank(teed, rank)
    elif rank is None and (found := _RANK_OF_WATCHDOG.search(text)):
        rank, text = int(next(filter(None, found.groups()))), text[found.start() :]
    return LogLine(
        rank,
        text,
        marked=(marked or in_prefix) is not None,
        number=raw.number,
        stamp=stamp,
        suspect=raw.suspect,
        collected=collected,
    )


def _without_time(text: str, seen: SeenPrefixes) -> tuple[str, str]:
    """The line without the time before it, and this time as it was written; empty where there is none."""
    if found := _TIME.match(text):
        return text[found.end() :], found[0]
    if found := _LOGGER_OF_TORCH.match(text):
        return text[found.end() :], found["time"]
    if found := _LOGGER.match(text):
        seen.learn_logger(found[0])
        return text[found.end() :], found["time"]
    return seen.without_logger(text)


def _without_label(text: str, seen: SeenPrefixes) -> str:
    """The line without what a collector put before it."""
    if found := _LABEL.match(text):
        rest = text[found.end() :]
        seen.learn_label(found[0], rest)
        return rest
    return seen.without_label(text)


def _label_of(sample: list[bytes]) -> re.Pattern[str] | None:
    """How the launcher put the task's number before every line of its tasks; those of a batch script may come before."""
    filled = [line.decode("utf-8", "replace") for line in sample if line.strip() and not _BY_SLURM_ITSELF.match(line)]
    for label in (_SLURM, _MPICH):
        found = [*dropwhile(lambda task: task is None, map(label.match, filled))]
        tasks = {task[1] for task in found if task is not None}
        enough = bool(found) and None not in found and len(found) * LABELLED_PART >= len(filled)
        if enough and (label is _SLURM or {"0", "1"} <= tasks):
            return label
    return None

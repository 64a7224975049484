"""The lines of a log file that can matter, as bytes: all of a small file, of a large one those near words of failures.

A log of a gigabyte is read once. Its ordinary lines differ in their numbers alone: of each form one line is looked at.
"""

from __future__ import annotations

import errno
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import BinaryIO

from ddpdoctor.logs.encoded_files import BLOCK_BYTES, plain_blocks
from ddpdoctor.logs.wrapped_lines import unwrapped

SMALL_BYTES = 4 << 20  # a file up to this size is read line by line
MOST_BYTES_WITHOUT_SIZE = 256 << 20
MAX_LINE_BYTES = 1 << 14  # of a longer line its beginning, and the surroundings of each word of a failure
SAMPLED_LINES = 200  # of the beginning and the end of a large file
LINES_BEFORE = 4  # a message's first lines may hold none of the words
LINES_AFTER = 80  # a message of several lines among those of other ranks, and progress that shows that the job went on
MAX_FORMS = 20_000
MAX_FORM_BYTES = 400
MAX_REST_BYTES = 4 << 20
MAX_PER_FORM = 5_000  # lines that differ in their numbers alone: as many ranks may say the same
MAX_SHOWN = 200_000  # lines; where more are suspect, few of each form and few after each tell enough
FEW_PER_FORM, FEW_AFTER = 20, 4
# Parts of the words that lines of failures hold, from the first rare letter of each on: an expression whose alternatives all
# begin with one of few rare letters is four times as fast as one of whole words.
_WORDS = re.compile(
    rb"ERROR|CRITICAL|FATAL|xcept|Traceback|File \"|Fatal|WARN|fail|Fail|FAIL|med out|meout|gnal|SIG|killed|Killed|xit|"
    rb"connect|Connect|bort|minate|gmentation|f memory|f Memory|OOM|m-kill|m_kill|m kill|Assert|worker_count|pace left|"
    rb"StorageFull|quota|file handle|CANCELLED|PREEMPT|TIME LIMIT|Xid|fallen off|Duplicate GPU|Last |cannot be|EADDR|CUDA|"
    rb"NCCL_|ccl[A-Z]|\(Pdb\)|grad for rank|calculating loss|guments|what\(\):|force fail|core dumped|code|Broken|No route|"
    rb"Heartbeat|barrier|compatible|MEMBER|IFNAME|Memory file|Process|world_size|WORLD_SIZE|Root Cause|k   |TERM|Evicted|"
    rb"GLOBAL_RANK|bus |Bus |butes|consistent|mismatch|bootstrapping|Safe importing|many open|t open file|"
    rb"No such file|BackOff|ccess fault|MPI_|xecuting job|missing ranks|Stalled ranks|Async thread|k: \[\d"
)
_WORDS_WITHOUT_RARE_LETTERS = (
    b"rror",
    b"died",
    b"ddress",
    b"dzv",
    b"un_id",
    b"uda ",
    b" stuck",
    b"nnodes",
    b"side assert",
    b"unused param",
    b"low on res",
    b"orovod",
    b": [allreduce",
    b"to be reduced",
    b" collective #",
)
_WORDS_OF_LONG_LINES = (
    b"rror: ",
    b"Traceback (most",
    b"NCCL WARN",
    b"Watchdog caught",
    b"exitcode",
    b"No space left",
    b"out of memory",
)
_NUMBERS = b"0123456789.,:+-"
_ANOTHER_FORM = b"?"  # all suspect lines of forms beyond the first ones
_HEX_NUMBERS = _NUMBERS + b"abcdefABCDEFx"
_HEAD = b"Traceback (most recent call last):"
_FRAME = re.compile(rb'^\W{0,12}File "[^"]+", line \d+')
_CLOCK = re.compile(rb"\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line of a log file, or a part of a very long one."""

    number: int
    """Its number in the file, from 1."""
    data: bytes
    """Its bytes without the end of the line."""
    suspect: bool = True
    """Whether it holds a word that lines of failures hold."""


def raw_lines(path: Path, *, backwards: bool = False) -> Iterator[RawLine]:
    """The lines of the file at `path` that can matter. A carriage return ends a line, as a progress bar's update does.

    `backwards`: the last line first, of a small file.
    """
    with path.open("rb") as stream:
        contents = _contents(stream)
        if isinstance(contents, bytes):
            lines = [*_lines_of(contents)]
            yield from reversed(lines) if backwards else lines
        else:
            yield from _notable(contents)


def _contents(stream: BinaryIO) -> bytes | Iterator[bytes]:
    """All of a small log; a large one in blocks."""
    encoded = plain_blocks(stream)
    if encoded is not None:
        return _whole_or_blocks(encoded)
    size = _size_of(stream)
    if size > SMALL_BYTES:
        return _data(stream)
    # a file of a kernel's or a user's own file system may not know its size
    return stream.read(SMALL_BYTES if size else MOST_BYTES_WITHOUT_SIZE)


def _whole_or_blocks(blocks: Iterator[bytes]) -> bytes | Iterator[bytes]:
    first: list[bytes] = []
    for block in blocks:
        first.append(block)
        if sum(map(len, first)) > SMALL_BYTES:
            return chain(first, blocks)
    return b"".join(first)


def _size_of(stream: BinaryIO) -> int:
    return os.fstat(stream.fileno()).st_size


def sample_of(path: Path) -> list[bytes]:
    """The first lines of the file."""
    with path.open("rb") as stream:
        blocks = plain_blocks(stream)
        if blocks is not None:
            lines = next(blocks, b"").splitlines(keepends=True)[:SAMPLED_LINES]
            return [line[:MAX_LINE_BYTES] for line in lines]
        return [stream.readline(MAX_LINE_BYTES) for _ in range(SAMPLED_LINES)]


def head_of(path: Path, size: int) -> bytes:
    """The first bytes of the file as it is read: unpacked where it is compressed, in UTF-8 where it is UTF-16."""
    with path.open("rb") as stream:
        blocks = plain_blocks(stream)
        return stream.read(size) if blocks is None else next(blocks, b"")[:size]


def is_newest_first(sample: list[bytes]) -> bool:
    """Whether the lines are printed from the last to the first, as web consoles do: their times or their tracebacks say so."""
    times = [found[0] for line in sample if (found := _CLOCK.search(line))]
    falls = sum(later < earlier for earlier, later in pairwise(times))
    rises = sum(later > earlier for earlier, later in pairwise(times))
    lines = [line.rstrip() for line in sample if line.strip()]
    down = up = 0
    for before, line, after in zip([b"", *lines], lines, [*lines[1:], b""], strict=False):
        if line.endswith(_HEAD):
            up += bool(_FRAME.match(before)) and not _FRAME.match(after)
            down += bool(_FRAME.match(after))
        elif _FRAME.match(line):
            code_before = (
                bool(before) and not _FRAME.match(before) and before[:1] in b" \t" and not before.endswith(_HEAD)
            )
            code_after = bool(after) and not _FRAME.match(after) and after[:1] in b" \t"
            up += code_before and not code_after
            down += code_after and not code_before
    return (falls > 2 * rises and falls >= 2) or (up > down and up >= 1 and not rises > falls)


def _lines_of(data: bytes) -> Iterator[RawLine]:
    lines = [line.removesuffix("\r") for line in data.decode("utf-8", "surrogateescape").split("\n")]
    for index, line in unwrapped(lines):
        yield from _parts_of(line.encode("utf-8", "surrogateescape"), index + 1)


def _parts_of(line: bytes, number: int) -> Iterator[RawLine]:
    """A line as it stands, each state of a progress bar for itself, and of a very long line its pieces."""
    for part in line.rstrip(b"\r").split(b"\r") if b"\r" in line else (line,):
        for piece in (part,) if len(part) <= MAX_LINE_BYTES else _pieces(part):
            yield RawLine(number, piece, _holds_a_word(piece))


def _pieces(line: bytes) -> Iterator[bytes]:
    """Of a very long line the beginning, and windows around words of failures, in order."""
    yield line[:MAX_LINE_BYTES]
    done = MAX_LINE_BYTES
    for position in sorted(found for word in _WORDS_OF_LONG_LINES if (found := line.find(word, MAX_LINE_BYTES)) >= 0):
        if position >= done:
            start = max(done, position - 400)
            done = start + 4096
            yield line[start:done]


def _is_suspect(line: bytes) -> bool:
    if len(line) > MAX_LINE_BYTES:
        return any(word in line for word in _WORDS_OF_LONG_LINES)
    return _holds_a_word(line)


def _holds_a_word(line: bytes) -> bool:
    return _WORDS.search(line) is not None or any(word in line for word in _WORDS_WITHOUT_RARE_LETTERS)


def _notable(blocks: Iterable[bytes]) -> Iterator[RawLine]:
    """Of a large file the neighbourhoods of suspect lines, and its first and last lines.

    A line whose form (without its numbers) was looked at before and is not suspect is passed over; so is a suspect form that
    was met thousands of times.
    """
    harmless: set[bytes] = set()
    suspect: dict[bytes, int] = {}
    before: deque[tuple[int, bytes]] = deque(maxlen=LINES_BEFORE)
    after, number, last, shown = SAMPLED_LINES, 0, -1, 0
    lines: list[bytes] = []
    for lines in _lines_of_blocks(blocks):
        for line in lines:
            number += 1
            form = line[:MAX_FORM_BYTES].translate(None, _NUMBERS)
            if form in harmless and not after and len(line) <= MAX_FORM_BYTES:
                continue
            is_suspect = form not in harmless and _is_suspect(line)
            if is_suspect:
                form = form.translate(None, _HEX_NUMBERS)
                form = form if form in suspect or len(suspect) < MAX_FORMS else _ANOTHER_FORM
                suspect[form] = suspect.get(form, 0) + 1
                if suspect[form] > (MAX_PER_FORM if shown < MAX_SHOWN else FEW_PER_FORM):
                    continue
                for earlier, data in before:
                    if earlier > last:
                        yield from _parts_of(data, earlier)
                before.clear()
                after = max(after, LINES_AFTER if shown < MAX_SHOWN else FEW_AFTER)
            elif len(harmless) < MAX_FORMS and len(line) <= MAX_FORM_BYTES:
                harmless.add(form)
            if after or is_suspect:
                after = max(0, after - 1)
                last = number
                shown += 1
                yield from _parts_of(line, number)
            else:
                before.append((number, line))
    for place, line in enumerate(lines[-SAMPLED_LINES:], number - min(SAMPLED_LINES, len(lines)) + 1):
        if place > last:
            yield from _parts_of(line, place)


def _lines_of_blocks(blocks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Whole lines, a block at a time; a line that is longer than several blocks comes in parts."""
    rest = b""
    for block in blocks:
        lines = (rest + block).split(b"\n") if rest else block.split(b"\n")
        rest = lines.pop()
        if len(rest) > MAX_REST_BYTES:
            lines.append(rest)
            rest = b""
        if lines:
            yield lines
    if rest:
        yield [rest]


def _data(stream: BinaryIO) -> Iterator[bytes]:
    """What is in the file now, in blocks: nothing of the holes of a sparse file, and nothing that is added meanwhile."""
    descriptor, place, end = stream.fileno(), 0, _size_of(stream)
    while place < end:
        try:
            place = os.lseek(descriptor, place, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
        block = os.pread(descriptor, min(BLOCK_BYTES, end - place), place)
        if not block:
            return
        place += len(block)
        yield block

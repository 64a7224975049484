"""Lines that a terminal, a chat or a mail broke at its width, put together again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

MIN_WIDTH = 72  # narrower windows are rare, and rulers and tables are often shorter
USUAL_WIDTHS = {
    80,
    100,
    120,
    132,
    160,
    180,
    200,
    211,
    237,
    238,
    239,
    240,
}  # of terminals; here one broken line is enough
MIN_BROKEN = 2  # full lines, where the width is another one, or where lines are broken between words
SHARE = 0.8  # of the lines that begin like no line of a log: so many follow a full line where a terminal broke them
MAX_PARTS = 60  # of one line
MIN_HEADS = 4  # lines with the same first word
_BEGINS = re.compile(
    r"""
    \s*$ | \s{2,} | \t
    | [\[{│╭╰|>*#=+\-_~^$@] | \((?:\S{1,80}\ )?(?:rank=|pid=|raylet|autoscaler)
    | (?:\w[\w.-]{0,80}[:|] ?)?\[?\d{4}[-/]\d\d[-/]\d\d | \[?[EWIF]\ ?\d{2,4}[\ \]] | \d\d:\d\d:\d\d
    | Traceback\ \(most | File\ " | frame\ \\?\#\d | During\ handling | The\ above\ exception | Exception\ raised
    | (?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit|Warning)\b
    | (?:ERROR|WARNING|INFO|DEBUG|CRITICAL|FATAL)\b | (?:srun|slurmstepd|mpirun|usage|wandb|terminate\ called)\b
    | (?:Failures|Root\ Cause|Killing\ subprocess|Epoch|epoch|step|Step|iter|loss|Last\ error|Killed|Aborted)\b
    | [\w.-]{1,80}:\d{1,9}:\d{1,9}\ \[ | \d{1,9}:\ | nccl\w{1,40}Error:
    """,
    re.VERBOSE,
)
QUOTE = re.compile(r"^(?!> ?[^\s(]{1,300}\(\d+\)|>>> (?!Traceback \(|  |[\w.]{1,80}(?:Error|Exception)\b))(?:> ?){1,4}")
"""The marks before an answer in a forum or a mail; not `> /job/train.py(47)train()` of pdb, nor `>>> ` before code."""
FRAME = "│"
INDENT_OF_FRAMES = 2  # of `  File "train.py", line 3`, below the head of a traceback
_GOES_ON = re.compile(r"\s{8,80}(NVRM: )")  # a message of the kernel's driver in several lines, below its time
_RULER = re.compile(r"^(\W)\1*$")
_NUMBER = re.compile(r"\d+")


def unwrapped(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Each whole line with the index of its first part; the lines themselves where nothing broke them.

    Where most of them are quoted, without the marks of the quotation.
    """
    lines = _without_margins(lines)
    width, head = max(map(len, lines), default=0), _head(lines)
    glue = _glue(lines, width, head) if width >= MIN_WIDTH else None
    index = 0
    while index < len(lines):
        first, text = index, lines[index]
        while index + 1 < len(lines) and index - first < MAX_PARTS:
            line, after = lines[index], lines[index + 1]
            if (goes_on := _GOES_ON.match(after)) and goes_on[1] in text:
                text += f" {after[goes_on.end() :]}"
            elif glue is None or not _is_full(line, after, width, glue) or _begins(line, after, head):
                break
            else:
                text += glue + after
            index += 1
        index += 1
        yield first, text


def _without_margins(lines: Sequence[str]) -> Sequence[str]:
    """The lines without what the place that they were copied from put around them: padding, marks, a frame, an indentation."""
    lines = [line.rstrip(" ") if line.endswith("  ") else line for line in lines]
    for without in (_unquoted, _unframed):
        bare = [without(line) for line in lines]
        if len(lines) - bare.count(None) > SHARE * sum(map(bool, lines)):
            lines = [line if inner is None else inner for line, inner in zip(lines, bare, strict=True)]
    filled = [line for line in lines if line]
    indent = min((len(line) - len(line.lstrip(" ")) for line in filled), default=0)
    if any(line.startswith('File "', indent) for line in filled):
        indent -= INDENT_OF_FRAMES
    return [line[indent:] for line in lines] if indent > 0 else lines


def _unquoted(line: str) -> str | None:
    """The line without the marks before an answer; None where it has none."""
    found = QUOTE.match(line)
    return line[found.end() :] if found is not None else None


def _unframed(line: str) -> str | None:
    """The line in a window of a terminal multiplexer; None of others, also of those in a box that rich draws around code."""
    if line[:1] != FRAME or line[-1:] != FRAME or line.count(FRAME) != 2 or "❱" in line:
        return None
    return line[1:-1].removeprefix(" ").rstrip(" ")


def _head(lines: Sequence[str]) -> str:
    """The first word of most lines, as a launcher writes it before each: a name of the job, a host; nothing without one."""
    word, times = next(iter(Counter(line.split(" ", 1)[0] for line in lines).most_common(1)), ("", 0))
    return word if times >= MIN_HEADS and 2 * times > len(lines) else ""


def _glue(lines: Sequence[str], width: int, head: str) -> str | None:
    """What stood where the lines were broken: nothing, or a blank between words; None where they were not broken."""
    pairs = [(line, after) for line, after in pairwise(lines) if line and not _begins(line, after, head)]
    broken = sum(len(line) == width for line, _ in pairs)
    if broken >= (1 if width in USUAL_WIDTHS else MIN_BROKEN) and broken >= SHARE * len(pairs):
        return ""
    by_words = sum(_is_full(line, after, width, " ") for line, after in pairs)
    return " " if by_words >= MIN_BROKEN and by_words >= SHARE * len(pairs) else None


def _is_full(line: str, after: str, width: int, glue: str) -> bool:
    """Whether nothing of what follows had room in this line."""
    if _RULER.match(line):
        return False
    return len(line) == width if not glue else len(line) + 1 + len(after.split(" ", 1)[0]) > width


def _begins(line: str, after: str, head: str) -> bool:
    """Whether the second line begins like a line of its own or as most lines do, and not like the rest of the first one."""
    own = bool(head) and after.split(" ", 1)[0] == head
    return own or _BEGINS.match(after) is not None or _form(line) == _form(after)


def _form(line: str) -> str:
    return _NUMBER.sub("#", line[:12])

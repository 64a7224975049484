"""Python tracebacks out of the lines of one rank: nested, cut off at either end, in a box of rich, in a notebook."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankError

MAX_FRAMES = 200
MAX_MESSAGE_LINES = 12  # DDP's own messages have up to six, C++ stacks behind them do not matter
MAX_ERRORS = 5000

HEAD = "Traceback (most recent call last)"
_FRAME = re.compile(r'^\s*(?:> )?File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,? in (?P<function>.+))?$')
_CUT_FRAME = re.compile(r'^\s*(?:> )?File "[^"]{2,}(?:", lin?e?|", line \d*)?$')
_BOXED = re.compile(r"^\s*│ ?(?P<inner>[^│❱]*)(?:│\s*)?$")  # neither the code of a frame nor the table of its variables
_BOXED_FRAME = re.compile(r"^(?P<file>(?:[A-Za-z]:)?[^:]+?):(?P<line>\d+) in (?P<function>\S.*)$")
_BOXED_PATH = re.compile(r"^(?:[A-Za-z]:)?[^\s:]*[/\\][^:]*$")
_CELL = re.compile(
    r"^(?:File (?P<file>\S+?):(?P<line>\d+)(?:, in (?P<function>[^(]+).*)?|Cell In ?\[\d+\], line (?P<cell>\d+).*)$"
)
_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*?)(?:: (?P<message>.*)|:? ?)$")
# an error line without a traceback above it
_BARE_ERROR = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|SystemExit|Died)|(?:[a-z_]\w*\.){1,8}Error)"
    r"(?:\(\w+\))?(?:: (?P<message>.*)|:? ?)$"
)
_PASSED_ON_BY_RAY = re.compile(r"^(?:ray\.exceptions\.)?(?:RayTaskError\([\w.]+\): )?ray::[\w.<>:]+\(\)? ?\(?.*pid=\d+")
_CHAINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
# in the message of another exception: of a DataLoader worker, and of a rank while all of them save a checkpoint
_NESTED = re.compile(
    r"^Original Traceback \(most recent call last\):$|^Traceback \(most recent call last\): \(RANK (\d{1,9})\)$"
)
_IGNORED = re.compile(r"^Exception ignored in")
_ENDS_A_MESSAGE = re.compile(
    r"^(?:\[?[WEIF] ?\d{3,4}[ \d]|\[[WEIF] \w+\.cpp:|={5,}|-{5,}|\*{5,}|Exception raised from |terminate called|srun: |"
    r"slurmstepd: |"
    r"Killing subprocess|Failures:|Root Cause|(?:ERROR|WARNING|INFO):\w|\[\d{4}-|\d{4}-\d\d-\d\d|usage: |Error executing job|"
    r"[\w.-]+:\d+:\d+ \[\d+\]|\{'|wandb: |frame #\d)"
)


@dataclass(slots=True)
class _Open:
    """A traceback that is being read."""

    ignored: bool
    """Whether Python said `Exception ignored in`."""
    marked: bool
    """Whether torch put the rank before its lines."""
    headed: bool = True
    """Whether its head stands in the log."""
    frames: list[Frame] = field(default_factory=list)
    """Outermost first."""
    type: str | None = None
    """The exception's type, once its line has come."""
    message: list[str] = field(default_factory=list)
    """The lines of the exception's message so far."""
    cause: RankError | None = None
    """The exception before it in the chain."""
    boxed: bool = False
    """Whether it stands in a box that rich draws."""
    heads: int = 1
    """How many heads stand one after the other: so many ranks write alike lines in turn."""
    frame_lines: int = 0
    """How many lines of frames have come, of all these ranks."""
    code_follows: bool = False
    """Whether the last line was a frame at the left edge, as in posts that lost their indentation: its code is next."""

    @property
    def is_bare(self) -> bool:
        """Whether nothing but its head has come so far."""
        return self.headed and not self.frame_lines and self.type is None

    @property
    def ranks(self) -> int:
        """How many ranks wrote it: as many as wrote a head, where all wrote the same frames."""
        return self.heads if self.frames and self.frame_lines == self.heads * len(self.frames) else 1

    def add(self, frame: Frame) -> None:
        """Take one line of a frame; the same one of another rank is no frame more."""
        self.frame_lines += 1
        if len(self.frames) < MAX_FRAMES and not (self.heads > 1 and self.frames and self.frames[-1] == frame):
            self.frames.append(frame)


@dataclass(slots=True)
class Tracebacks:
    """Fed with the lines of one rank in order."""

    errors: list[RankError] = field(default_factory=list)
    """The exceptions that they show, in order."""
    cut: list[RankError] = field(default_factory=list)
    """Tracebacks that end before their exception, in order."""
    _open: _Open | None = None
    _chained: RankError | None = None
    _outer: _Open | None = None
    _ignored: bool = False
    _half: str = ""
    _boxed_path: str = ""

    @property
    def begun(self) -> bool:
        """Whether there has been a traceback so far."""
        return self._open is not None or bool(self.errors)

    @property
    def ignored(self) -> bool:
        """Whether what is being read is an exception that Python said to ignore."""
        return self._open is not None and self._open.ignored

    def is_code(self, text: str) -> bool:
        """Whether the next line is the code of a frame: indented, below the frames of a traceback that is being read."""
        return (
            self._open is not None and self._open.type is None and bool(self._open.frames) and text.startswith("    ")
        )

    def feed(self, text: str, *, marked: bool = False) -> bool:
        """Take the next line; True where it belongs to a traceback. `marked` where torch put `[rankN]: ` before it."""
        if self._open is not None and self._open.marked and not marked:
            return False
        if self._half:  # a terminal broke the line
            whole, self._half = self._half + text, ""
            text = whole if _FRAME.match(whole) or _CUT_FRAME.match(whole) else text
        bare = text.strip()
        if bare in _CHAINED:
            self.close()
            self._chained = self.errors.pop() if self.errors else None
            return True
        nested = _NESTED.match(bare)
        if nested and nested[1] and (self._open is None or self._open.type is None):  # its head is not in the log
            self._begin(marked=marked)
            assert self._open is not None
            self._open.type = "CheckpointException"
            self._open.message = [f"CheckpointException ranks:dict_keys([{nested[1]}])"]
        if nested and self._open is not None and self._open.type is not None:
            if self._outer is not None:  # one of another rank, behind the first one
                self.close()
                self._open = _Open(ignored=True, marked=marked)
                return True
            self._outer, self._open = self._open, _Open(ignored=self._open.ignored, marked=marked)
            return True
        if HEAD in text and (bare.endswith((HEAD, HEAD + ":")) or "╭" in text):
            if self._open is not None and self._open.is_bare and bare == HEAD + ":":
                self._open.heads += 1
                return True
            return self._begin(marked=marked, boxed="╭" in text)
        if _PASSED_ON_BY_RAY.match(bare):
            return self._begin(marked=marked)
        if self._open is None and not self._begins_in_the_middle(text, marked=marked):
            self._ignored = bool(_IGNORED.match(text))
            return False
        assert self._open is not None
        return self._go_on(self._open, text)

    def close(self) -> None:
        """The log ends here, or something else begins: keep what was read."""
        current, self._open = self._open, None
        outer, self._outer = self._outer, None
        if current is None:
            self._keep_what_nothing_followed()
            return
        if current.ignored:
            return
        if current.type is None and current.cause is not None:  # cut off: what is whole is the exception before it
            self.errors.append(current.cause)
            return
        error = _finished(current)
        if outer is not None:
            outer.cause = error if current.type is not None else None
            current, error = outer, _finished(outer)
        if error is not None:
            kept = self.errors if current.type is not None else self.cut
            kept += [error] * min(current.ranks, MAX_ERRORS - len(kept))

    def _keep_what_nothing_followed(self) -> None:
        """The exception before `During handling of ...`, where the log ends before the next one."""
        chained, self._chained = self._chained, None
        if chained is not None:
            self.errors.append(chained)

    def _begin(self, *, marked: bool, boxed: bool = False) -> bool:
        chained, self._chained = self._chained, None
        self.close()
        self._open = _Open(ignored=self._ignored, marked=marked, cause=chained, boxed=boxed)
        self._ignored = False
        return True

    def _begins_in_the_middle(self, text: str, *, marked: bool) -> bool:
        """Whether this line is of a traceback whose head is not in the log, or an error line alone."""
        if not any(pattern.match(text) for pattern in (_FRAME, _CUT_FRAME, _CELL, _BARE_ERROR)):
            return False
        chained, self._chained = self._chained, None
        self._open = _Open(ignored=self._ignored, marked=marked, headed=False, cause=chained)
        self._ignored = False
        return True

    def _go_on(self, current: _Open, text: str) -> bool:
        if current.type is None:
            return self._frame_or_error(current, text)
        if _FRAME.match(text) and not current.boxed:  # another one, whose head is not in the log
            self.close()
            return self.feed(text, marked=current.marked)
        empty = not text.strip()
        ends = _ENDS_A_MESSAGE.match(text) or len(current.message) >= MAX_MESSAGE_LINES or _BARE_ERROR.match(text)
        if ends or (empty and (any(map(str.strip, current.message)) or not current.headed)):
            self.close()
            return False if not _BARE_ERROR.match(text) else self.feed(text, marked=current.marked)
        current.message.append(text)
        return True

    def _boxed_frame(self, text: str) -> re.Match[str] | None:
        """The frame that a line in a box of rich shows; a path that is broken over several lines is put together."""
        boxed = _BOXED.match(text)
        if boxed is None:
            return None
        inner = boxed["inner"].removesuffix(" ") if text.rstrip().endswith("│") else boxed["inner"].rstrip()
        whole = self._boxed_path + inner.strip()
        if found := _BOXED_FRAME.match(whole):
            self._boxed_path = ""
            return found
        is_path = _BOXED_PATH.match(whole) is not None
        self._boxed_path = whole + (" " if inner.endswith(" ") else "") if is_path else ""
        return None

    def _frame_or_error(self, current: _Open, text: str) -> bool:
        found = _FRAME.match(text) or self._boxed_frame(text)
        if found is None and (cell := _CELL.match(text)):
            place = Frame(
                file=cell["file"] or "<ipython-cell>",
                line=int(cell["line"] or cell["cell"]),
                function=(cell["function"] or "<module>").strip(),
            )
            current.frames.append(place)
            return True
        if found:
            current.code_follows = text.startswith("File ")
            current.add(Frame(file=found["file"], line=int(found["line"]), function=found["function"] or "<module>"))
            return True
        if _CUT_FRAME.match(text) and len(text) > 60:
            self._half = text
            return True
        if not text or text[:1].isspace() or text[:1] in "│╰╭-^~" or text.lstrip()[:1] in "│╰╭":
            return True
        if current.code_follows and not _BARE_ERROR.match(text):
            current.code_follows = False
            return True
        if found := (_ERROR if current.headed and current.frames else _BARE_ERROR).match(text):
            current.type = found["type"].rpartition(".")[2]
            current.message = [found["message"] or ""]
            return True
        self.close()
        return False


def _finished(read: _Open) -> RankError | None:
    """The exception; None for a traceback that was cut off before it showed anything."""
    if read.type is None and not read.frames:
        return None
    while len(read.message) > 1 and not read.message[-1].strip():
        read.message.pop()
    message = "\n".join(read.message).strip()
    return RankError(
        type=read.type or "an exception that the log does not name",
        message=message.removeprefix(read.type or "")
        if read.ranks > 1
        else message,  # the other rank's line within this one
        stack=tuple(reversed(read.frames)),
        cause=read.cause,
    )

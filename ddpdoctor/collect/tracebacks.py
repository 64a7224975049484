"""Python tracebacks out of the lines of one rank, however long, nested or cut off."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankError

MAX_FRAMES = 200
MAX_MESSAGE_LINES = 12  # DDP's own messages have up to six, C++ stacks behind them do not matter

_HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*?)(?:: (?P<message>.*)|:? ?)$")
_CHAINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_NESTED = re.compile(r"^Original Traceback \(most recent call last\):$")
_IGNORED = re.compile(r"^Exception ignored in")
_ENDS_A_MESSAGE = re.compile(
    r"^(?:[WEIF]\d{4} |={5,}|-{5,}|Exception raised from |terminate called|srun: |slurmstepd: )"
)


@dataclass(slots=True)
class _Open:
    """A traceback that is being read; `marked` where torch put the rank before its lines."""

    ignored: bool
    marked: bool
    frames: list[Frame] = field(default_factory=list)
    type: str | None = None
    message: list[str] = field(default_factory=list)
    cause: RankError | None = None


@dataclass(slots=True)
class Tracebacks:
    """Fed with the lines of one rank in order; `errors` are the exceptions that they told, in order."""

    errors: list[RankError] = field(default_factory=list)
    _open: _Open | None = None
    _chained: RankError | None = None
    _outer: _Open | None = None
    _ignored: bool = False

    @property
    def begun(self) -> bool:
        """Whether there has been a traceback so far."""
        return self._open is not None or bool(self.errors)

    def feed(self, text: str, *, marked: bool = False) -> bool:
        """Take the next line; True where it belongs to a traceback. `marked` where torch put `[rankN]: ` before it."""
        if self._open is not None and self._open.marked and not marked:
            return False
        if text.strip() in _CHAINED:
            self.close()
            self._chained = self.errors.pop() if self.errors else None
            return True
        if _NESTED.match(text.strip()) and self._open is not None and self._open.type is not None:
            self._outer, self._open = self._open, _Open(ignored=self._open.ignored, marked=marked)
            return True
        if text.strip() == _HEAD or text.endswith(f" {_HEAD}"):
            return self._begin(marked=marked)
        if self._open is None:
            self._ignored = bool(_IGNORED.match(text))
            return False
        return self._go_on(self._open, text)

    def close(self) -> None:
        """The log ends here, or something else begins: keep what was read."""
        current, self._open = self._open, None
        outer, self._outer = self._outer, None
        if current is None or current.ignored:
            return
        error = _finished(current)
        if outer is not None:
            outer.cause = error
            error = _finished(outer)
        if error is not None:
            self.errors.append(error)

    def _begin(self, *, marked: bool) -> bool:
        chained, self._chained = self._chained, None
        self.close()
        self._open = _Open(ignored=self._ignored, marked=marked, cause=chained)
        self._ignored = False
        return True

    def _go_on(self, current: _Open, text: str) -> bool:
        if current.type is None:
            return self._frame_or_error(current, text)
        if _ENDS_A_MESSAGE.match(text) or len(current.message) >= MAX_MESSAGE_LINES:
            self.close()
            return False
        current.message.append(text)
        return True

    def _frame_or_error(self, current: _Open, text: str) -> bool:
        if found := _FRAME.match(text):
            if len(current.frames) < MAX_FRAMES:
                frame = Frame(file=found["file"], line=int(found["line"]), function=found["function"] or "<module>")
                current.frames.append(frame)
            return True
        if text[:1].isspace() or not text:
            return True
        if found := _ERROR.match(text):
            current.type = found["type"].rpartition(".")[2]
            current.message = [found["message"] or ""]
            return True
        self.close()
        return False


def _finished(read: _Open) -> RankError | None:
    """The exception, or None for a traceback that was cut off before it told anything."""
    if read.type is None and not read.frames:
        return None
    while len(read.message) > 1 and not read.message[-1].strip():
        read.message.pop()
    return RankError(
        type=read.type or "an exception that the log does not name",
        message="\n".join(read.message).strip(),
        stack=tuple(reversed(read.frames)),
        cause=read.cause,
    )

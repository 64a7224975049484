"""The rank's log: its strip, with every text (function, place, group, reduce operation) written down once."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from types import CodeType, FrameType
from typing import Any

from .rank import Rank
from .strip import Strip

_FRAMES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "evidence", "frames.py")

# named before anything else: a record has one byte for the number of its reduce operation
REDUCE_OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
MOST_HANDLED = 64  # lines that raised what was handled while a collective was called
MOST_CHARACTERS = 2000
MOST_LINES = 6  # of one stack: enough to meet a peer's stack in the loop that both are in


class Log:
    """Counters and calls of one rank. What a forked child (a data loader worker) does is not written."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.strip = Strip(
            rank.path("strip"),
            rank=-1 if rank.number is None else rank.number,
            world_size=rank.world_size or 0,
            restart=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        )
        self._names = open(rank.path("names"), "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - for life
        self._numbers: dict[Any, int] = {}
        self.is_users = _is_users()
        self._users_code: dict[CodeType, bool] = {}
        self._handled: set[tuple[type, CodeType, int]] = set()
        for name in REDUCE_OPS:
            self.number("reduce", name)

    def number(self, *text: str | int) -> int:
        """The number that stands for `text` in the strip; 0 is nothing."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._numbers) + 1
            with self.rank.giving_up("naming what was called"):
                self._names.write(json.dumps([number, *text]) + "\n")
        return number

    def place(self, depth: int) -> int:
        """The number of the user's own lines that led here, innermost first, from `depth` frames above the caller on.

        In a thread other than the main one, the line of `threading` that began it comes last.
        """
        lines: list[tuple[CodeType, int]] = []
        frame: FrameType | None = sys._getframe(depth + 1)  # noqa: SLF001
        while frame is not None and len(lines) < MOST_LINES:
            code = frame.f_code
            mine = self._users_code.get(code)
            if mine is None:
                mine = self._users_code[code] = self.is_users(code.co_filename)
            if mine or (lines and frame.f_back is None and code.co_name == "_bootstrap"):
                lines.append((code, frame.f_lineno))
            frame = frame.f_back
        if not lines:
            return 0
        key = tuple(lines)
        number = self._numbers.get(key)
        if number is None:
            spoken = [(os.path.abspath(code.co_filename), line, code.co_name) for code, line in lines]
            number = self._numbers[key] = self.number(*(part for line in spoken for part in line))
        return number

    def handling(self, group: str, seq: int, error: BaseException) -> None:
        """Write down an error that is being handled while call `seq` of `group` is made: of each line the first one only."""
        lines = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        if not lines or (type(error), *lines[-1]) in self._handled or len(self._handled) == MOST_HANDLED:
            return
        self._handled.add((type(error), *lines[-1]))
        users = [one for one in reversed(lines) if self.is_users(one[0].co_filename)][:MOST_LINES]
        told = [(os.path.abspath(code.co_filename), line, code.co_name) for code, line in users]
        said = str(error)[:MOST_CHARACTERS]
        self.number("handling", group, seq, type(error).__name__, said, *(part for line in told for part in line))


def _is_users() -> Callable[[str], bool]:
    """`is_users` of ddpdoctor/evidence/frames.py, which lies beside us whether ddpdoctor is importable here or not."""
    spec = spec_from_file_location("_ddpdoctor_frames", _FRAMES)
    if spec is None or spec.loader is None:
        raise ImportError(_FRAMES)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    is_users: Callable[[str], bool] = module.is_users
    return is_users

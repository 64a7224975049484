"""Notes the lines of a program that set MASTER_ADDR or MASTER_PORT before it joins, through whatever they set them.

`os.environ[name] = value`, `os.environ.update(...)` and packages such as dotenv all end in `os.putenv`. Each such call costs less
than a microsecond more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..rank_process import Rank
from ..schema.call_texts import EnvWrite
from ..schema.source_line import SourceLine

NAMES = {b"MASTER_ADDR": "MASTER_ADDR", b"MASTER_PORT": "MASTER_PORT"}


def follow_writes(rank: Rank) -> None:
    """Have `rank` keep the last line that set each of these variables."""
    original: Callable[[Any, Any], None] = os.putenv

    def putenv(name: Any, value: Any, /) -> None:  # noqa: ANN401 - text or bytes
        original(name, value)
        if name in NAMES:
            with rank.giving_up("following the variables of the rendezvous"):
                _note(rank, NAMES[name], os.fsdecode(value), sys._getframe(1))  # noqa: SLF001

    os.putenv = putenv


def _note(rank: Rank, name: str, value: str, frame: FrameType | None) -> None:
    from ..user_code import is_users

    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    rank.writes.pop(name, None)
    if frame is not None:
        code = frame.f_code
        rank.writes[name] = EnvWrite(
            name, value, SourceLine(os.path.abspath(code.co_filename), frame.f_lineno, code.co_name)
        )

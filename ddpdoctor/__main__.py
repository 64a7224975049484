"""`ddpdoctor` and `python -m ddpdoctor`: Ctrl-C ends it with a sentence from its first import to its last flush."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found] # what `signal` adds takes milliseconds to import, in which an interrupt ends in a traceback
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as below `nohup`, or in the background of a shell
        signal.signal(signal.SIGINT, _leave)
    from ddpdoctor.cli import main as run  # takes most of a second, and holds nothing that would have to be put away

    run()


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    os.write(2, b"ddpdoctor: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()

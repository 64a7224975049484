"""`ddpdoctor` and `python -m ddpdoctor`: Ctrl-C ends it with a sentence from its first import to its last flush."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found] # what `signal` adds takes milliseconds to import, in which an interrupt ends in a traceback
import atexit
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

INTERRUPTED = 130
TEARDOWN_SECONDS = 60  # it takes milliseconds; on a host with 65 processes for each core it took over ten seconds


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as below `nohup`, or in the background of a shell
        signal.signal(signal.SIGINT, _leave)
        # The first to be registered is the last to run. After it the interpreter takes itself apart, with handlers that are
        # back at their defaults: an interrupt would end it as a signal, after a verdict that is complete.
        atexit.register(_let_the_end_be)
    from ddpdoctor.cli import main as run  # takes most of a second, and holds nothing that would have to be put away

    run()


def _let_the_end_be() -> None:
    """No interrupt from now on; where the interpreter does not end, as in a destructor that hangs, SIGALRM ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(TEARDOWN_SECONDS)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    os.write(2, b"ddpdoctor: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()

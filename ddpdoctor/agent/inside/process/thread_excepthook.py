"""Errors that ended a thread of a rank: the interpreter prints them and goes on, and whoever waits for the thread waits."""

from __future__ import annotations

import functools
import json
import threading
import time

from ..rank_process import Rank
from ..schema.rank_end import ThreadFailure
from .exit_hooks import described

MOST = 16  # a thread that is started anew after each error


def record_thread_errors(rank: Rank) -> None:
    """Add each error that nobody caught in a thread to `PID.threads`, whoever else's hook shows it."""
    original = threading.excepthook
    recorded = 0

    @functools.wraps(original)
    def excepthook(args: threading.ExceptHookArgs) -> None:
        nonlocal recorded
        if rank.is_here and recorded < MOST and args.exc_value is not None and args.exc_type is not SystemExit:
            recorded += 1
            with rank.giving_up("recording a thread's error"):
                name = args.thread.name if args.thread is not None else ""
                line = json.dumps(ThreadFailure(name, time.time(), described(args.exc_value)))
                with open(rank.path("threads"), "a") as file:
                    file.write(f"{line}\n")
        original(args)

    threading.excepthook = excepthook

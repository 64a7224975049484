"""What `ddpdoctor watch` has in a rank; see the modules named below for what each part does and costs."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from .ending import record_children, record_uncaught
from .rank import Rank

_calls: list[Any] = []  # of Calls: that module is only loaded where torch.distributed is


def started(rank: Rank) -> None:
    """In every Python process of the job: whoever starts ranks also sees how they end."""
    record_children(rank)


def imported(c10d: ModuleType, _rank: Rank) -> None:
    """Before anybody can import from `torch.distributed`."""
    from .calls import Calls

    _calls.append(Calls(c10d))


def joining(rank: Rank) -> None:
    """Before the rendezvous, in which a rank may already hang."""
    from .answers import answer_requests
    from .log import Log
    from .server import start_worker_server
    from .steps import count_steps
    from .threads import record_thread_errors
    from .tracing import allow_stacks

    with rank.giving_up("allowing py-spy"):
        allow_stacks(os.environ.get("DDPDOCTOR_WATCHER", ""))
    with rank.giving_up("the worker server"):
        start_worker_server(rank)
    with rank.giving_up("handing out the flight recorder"):
        answer_requests(rank)
    with rank.giving_up("recording the rank's error"):
        record_uncaught(rank)
        record_thread_errors(rank)
    with rank.giving_up("recording calls"):
        log = Log(rank)
        log.number("debug", os.environ.get("TORCH_DISTRIBUTED_DEBUG", ""))  # the script may have set it itself
        for calls in _calls:
            calls.log = log
        with rank.giving_up("counting steps"):
            count_steps(log, _calls[0])


def joined(rank: Rank) -> None:
    """The process group says which rank this is."""
    for calls in _calls:
        if calls.log is not None:
            calls.log.strip.place(rank.number or 0, rank.world_size or 0)

"""What `ddpdoctor watch` has in a rank; see the modules named below for what each part does and costs."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from .process.exit_hooks import record_children, record_uncaught
from .process.recorders_before_end import keep_recorders
from .process.rendezvous_writes import follow_writes
from .rank_process import Rank

DEBUG_LEVEL = "DDPDOCTOR_DEBUG_LEVEL"
"""The debug level for ranks that have set none."""
_hooks: list[Any] = []  # of CollectiveHooks: that module is only loaded where torch.distributed is


def started(rank: Rank) -> None:
    """In every Python process of the job: whoever starts ranks also sees how they end."""
    record_children(rank)
    keep_recorders(rank)
    follow_writes(rank)


def imported(c10d: ModuleType, rank: Rank) -> None:
    """Before anybody can import from `torch.distributed`. A process may prepare for long before it joins."""
    from .calls.collective_hooks import CollectiveHooks
    from .process.allow_ptrace import allow_stacks

    with rank.giving_up("allowing py-spy"):
        allow_stacks(os.environ.get("DDPDOCTOR_WATCHER", ""))
    _hooks.append(CollectiveHooks(c10d))


def joining(rank: Rank) -> None:
    """Before the rendezvous, in which a rank may already hang."""
    from .calls.call_log import CallLog
    from .calls.progress_counters import count_steps
    from .process.recorder_socket import answer_requests
    from .process.thread_excepthook import record_thread_errors
    from .process.worker_server import start_worker_server
    from .schema.call_texts import Joining

    with rank.giving_up("the worker server"):
        start_worker_server(rank)
    with rank.giving_up("handing out the flight recorder"):
        answer_requests(rank)
    with rank.giving_up("recording the rank's error"):
        record_uncaught(rank)
        record_thread_errors(rank)
    with rank.giving_up("setting the debug level"):
        _set_debug_level(os.environ.get(DEBUG_LEVEL, ""))
    with rank.giving_up("recording calls"):
        log = CallLog(rank)
        log.joining(Joining(debug=_debug_level(), rendezvous=rank.address, writes=tuple(rank.writes.values())))
        for hooks in _hooks:
            hooks.log = log
        with rank.giving_up("counting steps"):
            count_steps(log, _hooks[0])


def _set_debug_level(name: str) -> None:
    """Set the level that torch.distributed would have taken from TORCH_DISTRIBUTED_DEBUG, unless the job has set one."""
    dist: Any = sys.modules["torch.distributed"]
    if name and dist.get_debug_level() == dist.DebugLevel.OFF and "TORCH_DISTRIBUTED_DEBUG" not in os.environ:
        dist.set_debug_level(getattr(dist.DebugLevel, name))


def _debug_level() -> str:
    """`INFO` or `DETAIL`; empty where the level is off."""
    dist: Any = sys.modules["torch.distributed"]
    level = dist.get_debug_level()
    return "" if level == dist.DebugLevel.OFF else str(level.name)


def joined(rank: Rank) -> None:
    """The process group is there, and with it the rank."""
    for hooks in _hooks:
        if hooks.log is not None:
            hooks.log.ring.identify(rank.number or 0, rank.world_size or 0)

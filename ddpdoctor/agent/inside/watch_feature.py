"""What `ddpdoctor watch` has in a rank; see the modules named below for what each part does and costs."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from .exit_hooks import record_children, record_uncaught
from .rank_process import Rank

_hooks: list[Any] = []  # of CollectiveHooks: that module is only loaded where torch.distributed is


def started(rank: Rank) -> None:
    """In every Python process of the job: whoever starts ranks also sees how they end."""
    record_children(rank)


def imported(c10d: ModuleType, rank: Rank) -> None:
    """Before anybody can import from `torch.distributed`. A process may prepare for long before it joins."""
    from .allow_ptrace import allow_stacks
    from .collective_hooks import CollectiveHooks

    with rank.giving_up("allowing py-spy"):
        allow_stacks(os.environ.get("DDPDOCTOR_WATCHER", ""))
    _hooks.append(CollectiveHooks(c10d))


def joining(rank: Rank) -> None:
    """Before the rendezvous, in which a rank may already hang."""
    from .call_log import CallLog
    from .progress_counters import count_steps
    from .recorder_socket import answer_requests
    from .schema.call_texts import Joining
    from .thread_excepthook import record_thread_errors
    from .worker_server import start_worker_server

    with rank.giving_up("the worker server"):
        start_worker_server(rank)
    with rank.giving_up("handing out the flight recorder"):
        answer_requests(rank)
    with rank.giving_up("recording the rank's error"):
        record_uncaught(rank)
        record_thread_errors(rank)
    with rank.giving_up("recording calls"):
        log = CallLog(rank)
        log.joining(Joining(debug=os.environ.get("TORCH_DISTRIBUTED_DEBUG", ""), rendezvous=rank.address))
        for hooks in _hooks:
            hooks.log = log
        with rank.giving_up("counting steps"):
            count_steps(log, _hooks[0])


def joined(rank: Rank) -> None:
    """The process group is there, and with it the rank."""
    for hooks in _hooks:
        if hooks.log is not None:
            hooks.log.ring.identify(rank.number or 0, rank.world_size or 0)

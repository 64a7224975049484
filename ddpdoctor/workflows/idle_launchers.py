"""A launcher without ranks: what it waits for, as far as its own stack tells."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.host.launchers import LauncherProcess
from ddpdoctor.host.processes import is_alive
from ddpdoctor.ranks.stacks import NoStacks, py_spy

_ELASTIC = re.compile(r"/torch/distributed/elastic/")
_OTHER_NODES = (
    "see whether the job was started on every node, with the same number of nodes and the same endpoint, and whether "
    "the nodes reach it: run `ddpdoctor net` on each node"
)
_STAGES = (  # of torchrun, the latest first: its function, what that means, and what to do
    (
        "_exit_barrier",
        "its ranks on this host have ended; it waits for the launchers of the other nodes",
        "run `ddpdoctor hang` on the nodes where ranks still run",
    ),
    (
        "next_rendezvous",
        "it waits in its rendezvous for the launchers of other nodes",
        _OTHER_NODES,
    ),
    (
        "_assign_worker_ranks",
        "it waits for the launchers of other nodes to say how many ranks they have",
        "see whether the launchers on the other nodes still run",
    ),
)
MOST_NAMED = 4
_SOON = "run this command again when it has started them"
_ELSEWHERE = "run `ddpdoctor hang` on the hosts where the ranks run"


def without_ranks(launchers: Sequence[LauncherProcess]) -> UndecidedError:
    """The error that says which launcher has no ranks on this host, and what it waits for; `launchers` are at least one."""
    launcher = launchers[-1]  # what srun started knows more than srun
    state, hint = _state_of(launcher)
    return UndecidedError(
        f"{launcher.name} (process {launcher.pid}) is a launcher that has no ranks on this host: {state}",
        details=(launcher.command[:200], *_others(launchers[:-1])),
        hint=hint,
    )


def _others(launchers: Sequence[LauncherProcess]) -> tuple[str, ...]:
    """One line that counts the other launchers and names the first of them; none where there are none."""
    if not launchers:
        return ()
    named = ", ".join(f"{each.name} (process {each.pid})" for each in launchers[:MOST_NAMED])
    more = f", and {len(launchers) - MOST_NAMED} more" if len(launchers) > MOST_NAMED else ""
    noun = "launcher runs" if len(launchers) == 1 else "launchers run"
    return (f"{len(launchers)} more {noun} here: {named}{more}",)


def _state_of(launcher: LauncherProcess) -> tuple[str, str]:
    """What the launcher waits for, and what to do."""
    if launcher.starts_elsewhere:
        return "it has not started them yet, or it started them on other hosts", _ELSEWHERE
    try:
        threads = py_spy(launcher.pid)
    except NoStacks as reason:
        if not is_alive(launcher.pid):
            return "it has just ended", "look into its log: `ddpdoctor diagnose LOG`"
        return f"what it waits for cannot be read ({reason})", _SOON
    return _stage(next((thread.frames for thread in threads if thread.main), ()))


def _stage(frames: Sequence[Frame]) -> tuple[str, str]:
    functions = {frame.function for frame in frames if _ELASTIC.search(frame.file)}
    for function, state, hint in _STAGES:
        if function in functions:
            return state, hint
    if "_monitor_workers" in functions or "_invoke_run" in functions:
        return "it is starting them, or they have just ended", _SOON
    return "it has not started them yet", _SOON

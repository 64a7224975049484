"""Evidence of ranks that stand still: stacks as py-spy tells them, process states, and since when."""

from __future__ import annotations

from typing import Any

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.process import ProcessState, Stall
from ddpdoctor.evidence.stacks import Stacks, Thread

TORCH = "/venv/lib/python3.11/site-packages/torch"
C10D = f"{TORCH}/distributed/distributed_c10d.py"
STDLIB = "/usr/lib/python3.11"
SCRIPT = "/job/train.py"
MODULE = Frame(file=SCRIPT, line=90, function="<module>")


def stack(*frames: tuple[str, int, str], user: tuple[int, str] = (61, "train_step")) -> tuple[Frame, ...]:
    """Library frames, innermost first, above the user's own line."""
    above = (Frame(file=file, line=line, function=function) for file, line, function in frames)
    return (*above, Frame(file=SCRIPT, line=user[0], function=user[1]), MODULE)


IN_BACKWARD = stack(
    (f"{TORCH}/autograd/graph.py", 979, "_engine_run_backward"),
    (f"{TORCH}/autograd/__init__.py", 395, "backward"),
    (f"{TORCH}/_tensor.py", 623, "backward"),
)


def rank(
    frames: tuple[Frame, ...] = IN_BACKWARD,
    *,
    active: bool = False,
    holds_gil: bool = False,
    gil_never_free: bool = False,
    moved: bool = False,
    native: tuple[str, ...] = (),
    others: tuple[Thread, ...] = (),
    others_work: bool = False,
    **process: Any,
) -> tuple[Any, ...]:
    """The stacks and the process state of one rank; without arguments it waits in a backward."""
    main = Thread(
        name="MainThread", frames=frames, os_id=100, main=True, active=active, holds_gil=holds_gil, native=native
    )
    stacks = Stacks(
        source="py-spy",
        threads=(main, *others),
        moved=moved,
        gil_never_free=gil_never_free,
        others_work=others_work,
    )
    state = ProcessState(**{"pid": 100, "state": "S", "seconds": 1.0, "cpu_share": 0.0, "io_bytes": 0, **process})
    return stacks, state


def hang(*ranks: tuple[Any, ...], seconds: float | None = 6.1, facts: tuple[Any, ...] = ()) -> Evidence:
    """A job whose ranks say this, and have stood still for `seconds`."""
    stall = () if seconds is None else (Stall(seconds=seconds),)
    return Evidence(
        job=(*stall, *facts),
        ranks=tuple(RankFacts(rank=number, host="host-a", facts=said) for number, said in enumerate(ranks)),
        about_job=True,
    )

"""How many ranks a command starts on this host where nobody said it."""

from __future__ import annotations

import os
from typing import Annotated, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output

NprocOption = Annotated[
    Optional[int],  # noqa: UP045 - a default of None on Python 3.10
    typer.Option("--nproc", "-n", help="Start this many ranks here.  [default: one per GPU, or 2]"),
]
CROWDED = 8
"""So many ranks per usable core, and more, are announced: they take long even to import torch."""


def ranks_here(nproc: int | None) -> int | None:
    """`nproc` if it was given; None under a launcher; otherwise one rank per GPU, or 2, which stderr says in one line.

    Of ranks that crowd the cores, stderr says so before they start: for long there is nothing else to see.
    """
    from ddpdoctor.launch.ranks import MAX_LOCAL_RANKS, current_launch, default_nproc

    if current_launch() is not None:
        return nproc
    if nproc is not None:
        cores = len(os.sched_getaffinity(0))
        if CROWDED * cores <= nproc <= MAX_LOCAL_RANKS:
            output.say(
                f"{nproc} ranks share {cores} usable core{'s' * (cores > 1)}: they take turns even to start, and times that they "
                f"measure are those of the scheduler; if that is not meant, press Ctrl-C and give `--nproc {min(cores, 8)}`"
            )
        return nproc
    ranks = default_nproc()
    output.say(f"no launcher and no --nproc: starting {ranks} ranks on this host")
    return ranks

"""One exit code for all nodes of a torchrun: rank 0 alone knows the verdict."""

from __future__ import annotations

import os
import sys

from ddpdoctor.launch.guarded_process import run
from ddpdoctor.launch.ranks import current_launch, our_file
from ddpdoctor.launch.rendezvous import meeting_point

DEADLINE_SECONDS = 60.0  # rank 0 judges, and saves what it was asked to, while the others have nothing left to do
GRACE_SECONDS = 30.0  # torch's import, on a busy host


def one_exit_code(own: int) -> int:
    """The code with which this process should end: rank 0's where that of another node's first rank is 0.

    A torchrun whose ranks all ended with 0 waits five minutes for one on which a rank did not, and then says that all is well.
    srun and mpirun do neither. A node's first rank decides how its torchrun ends, and a code of its own needs no other.
    """
    launch = current_launch()
    if launch is None or launch.launcher != "torchrun" or launch.local_rank != 0 or (launch.agents or 1) == 1:
        return own
    if own and launch.rank != 0:
        return own
    meeting = meeting_point(os.environ, launch)
    command = [
        sys.executable, str(our_file("probes", "exit_code.py")), *meeting.arguments(launch, DEADLINE_SECONDS),
        "--nodes", str(launch.agents), "--code", str(own),
    ]  # fmt: skip
    ended = run(command, deadline_seconds=DEADLINE_SECONDS + GRACE_SECONDS)
    return int(ended.stdout) if launch.rank != 0 and ended.code == 0 else own

"""Logs: torch's hint about the argument, in a job that goes on."""

from tests.checks import Sick
from tests.rank_ends import from_log

HINT = """[W reducer.cpp:1303] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any \
unused parameters in the forward pass. This flag results in an extra traversal of the autograd graph every iteration
epoch 1 step 10 loss 2.31
epoch 1 step 20 loss 2.20
"""

SICK = (
    Sick(
        evidence=from_log(HINT),
        says="DDP looks for unused parameters in every step, and found none in the first one",
    ),
)
HEALTHY = (from_log("step 10 loss 2.31\nstep 20 loss 2.20\n"),)

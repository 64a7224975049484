"""Logs: lookups that fail while the job goes on."""

from tests.checks import Sick
from tests.rank_ends import from_log

REVERSE_DNS_ONLY = r"""[W socket.cpp:558] [c10d] The hostname of the client socket cannot be retrieved. err=-3
epoch 1 step 10 loss 2.31
epoch 1 step 20 loss 2.20
epoch 1 step 30 loss 2.11
"""

SICK = (
    Sick(
        evidence=from_log(REVERSE_DNS_ONLY),
        says="the name of a client's address could not be looked up once; each lookup can delay the rendezvous by 10 s",
        measured={"lookups": 1},
    ),
)
HEALTHY = (from_log("step 10 loss 2.31\nstep 20 loss 2.20\n"),)

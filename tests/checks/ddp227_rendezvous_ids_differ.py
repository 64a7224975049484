"""Logs: a rendezvous that timed out beside a made-up id; the id alone is no fault."""

from tests.checks import Sick
from tests.rank_ends import from_log

TIMEOUT_RANDOM_ID = r"""WARNING:torch.distributed.launcher.api:config has no run_id, generated a random run_id: 871623
torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError
"""

SICK = (
    Sick(
        evidence=from_log(TIMEOUT_RANDOM_ID),
        says="torchrun waited in a rendezvous of its own (RendezvousTimeoutError): it has no --rdzv-id, and made up one of "
        "its own",
        also=("DDP205",),
    ),
)
HEALTHY = (
    from_log(
        "WARNING:torch.distributed.launcher.api:config has no run_id, generated a random run_id: 871623\nstep 10 loss "
        "2.31\nstep 20 loss 2.20\n"
    ),
)

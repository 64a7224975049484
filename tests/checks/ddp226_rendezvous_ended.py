"""Logs: the rendezvous that ended, by the agent's own exception."""

from ddpdoctor.model import Severity
from tests.checks import Sick
from tests.rank_ends import from_log

CLOSED_AFTER_FAILURE = r"""I0613 04:07:20.086000 70572 torch/distributed/elastic/agent/server/api.py:889] [default] Worker group FAILED. 2/3 attempts left; will restart worker group
I0613 04:07:20.087000 70572 torch/distributed/elastic/agent/server/api.py:677] [default] Rendezvous'ing worker group
Traceback (most recent call last):
  File "/opt/env/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/env/lib/python3.11/site-packages/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py", line 678, in run
    raise RendezvousClosedError
torch.distributed.elastic.rendezvous.api.RendezvousClosedError
"""  # noqa: E501 - as libraries write it
CONNECTION_LOST_MIDRUN = r"""W0711 18:01:09.400000 140011 torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1279] The node 'gpu2_991_0' has failed to send a keep-alive heartbeat to the rendezvous 'job7' due to an error of type RendezvousConnectionError.
torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.
"""  # noqa: E501 - as libraries write it

SICK = (
    Sick(
        evidence=from_log(CLOSED_AFTER_FAILURE),
        says="torchrun's agent met a rendezvous that was already closed (RendezvousClosedError)",
        severity=Severity.WARN,
    ),
    Sick(
        evidence=from_log(CONNECTION_LOST_MIDRUN),
        says="torchrun's agent has no connection to the store of the rendezvous (RendezvousConnectionError)",
    ),
)
HEALTHY = (
    from_log(
        "I0613 04:07:20.087000 70572 torch/distributed/elastic/agent/server/api.py:677] [default] Rendezvous'ing worker "
        "group\nstep 10 loss 2.31\nstep 20 loss 2.20\n"
    ),
)

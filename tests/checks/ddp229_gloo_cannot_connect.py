"""Logs: gloo's own words about peers that it cannot reach."""

from tests.checks import Sick
from tests.rank_ends import from_log

FULL_MESH_REFUSED = r"""[rank1]:   File "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 1980, in _new_process_group_helper
[rank1]:     backend_class = ProcessGroupGloo(
[rank1]: RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error
"""  # noqa: E501 - as libraries write it
FULL_MESH_TIMEOUT = r"""RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:27539
"""  # noqa: E501 - as libraries write it
CONNECT_TIMEOUT_OLD = r"""RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:761] connect [127.0.1.1]:5101: Connection refused
RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:761] connect [10.0.0.5]:5101: Connection timed out
"""  # noqa: E501 - as libraries write it

SICK = (
    Sick(
        evidence=from_log(FULL_MESH_REFUSED),
        says="gloo could not connect the ranks with each other on rank 1: connectFullMesh failed",
    ),
    Sick(
        evidence=from_log(FULL_MESH_TIMEOUT),
        says="gloo could not connect to 127.0.0.1 port 27539 (connectFullMesh failed)",
        measured={"addr": "127.0.0.1", "port": "27539"},
    ),
    Sick(
        evidence=from_log(CONNECT_TIMEOUT_OLD),
        says="gloo could not connect to 127.0.1.1 port 5101: Connection refused",
        measured={"addr": "127.0.1.1", "port": "5101", "why": "Connection refused"},
    ),
)
HEALTHY = (
    from_log(
        "[Gloo] Rank 0 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3\nstep 10 loss "
        "2.31\nstep 20 loss 2.20\n"
    ),
)

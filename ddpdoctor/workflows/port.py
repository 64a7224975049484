"""All there is to say of one TCP port of this host."""

from __future__ import annotations

import errno
import socket

from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.network import Master, PortOwner
from ddpdoctor.host.host_access import HostAccess
from ddpdoctor.host.network import this_network
from ddpdoctor.host.ports import bind_error, connected, free_port_near, listeners


def examine(port: int) -> Evidence:
    """Who holds `port`, as if it were the MASTER_PORT of a job whose rank 0 runs here, and another one that is free.

    Raises:
        UsageError: nobody holds it, and this user may not listen there.
    """
    hostname = socket.gethostname()
    error = bind_error(port)
    free = error is None
    owners = sorted(listeners(port), key=lambda owner: owner.ours)
    if not owners and error == errno.EACCES:
        raise UsageError(
            f"port {port} is free, but only root may listen on a port below the limit (net.ipv4.ip_unprivileged_port_start)",
            hint=f"take a higher one: `export MASTER_PORT={free_port_near(port) or 29500}`",
        )
    if not owners and not free:
        owners = [owner for owner in connected(port) if owner.pid is not None]
        owners = owners or [PortOwner(pid=None, command=None)]
    master = Master(
        addr=hostname,
        port=port,
        addresses=("127.0.0.1",),
        local=True,
        owner=next(iter(owners), None),
    )
    other = free_port_near(port)
    if free:
        note = f"port {port} is free on {hostname}"
    elif other is not None:
        note = f"port {other} is free: `export MASTER_PORT={other}`"
    else:
        note = "none of the ports from 29500 to 29699 is free"
    facts = (master, this_network(HostAccess()))
    return Evidence(ranks=(RankFacts(rank=0, host=hostname, facts=facts),), notes=(note,), launched=False)

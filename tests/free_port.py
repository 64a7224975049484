"""Ports for a test's own programs, which nothing else on a busy machine is given meanwhile."""

from __future__ import annotations

import random

from ddpdoctor.host.ports import can_bind

# Outside the range from which the system serves `bind` to port 0 and every outgoing connection: a port that was free there a
# moment ago may have been given to any other program by the time that a rank listens on it.
PORTS = range(20_000, 29_000)


def free_port() -> int:
    """A port on which nobody listens; another one each time."""
    return next(port for port in random.sample(PORTS, len(PORTS)) if can_bind(port))

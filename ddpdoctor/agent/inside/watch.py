"""What `ddpdoctor watch` has in a rank: PyTorch's worker server on a Unix socket, which answers while the rank waits."""

from __future__ import annotations

from .rank import Rank
from .server import start_worker_server


def joining(rank: Rank) -> None:
    """Start the server before the rendezvous, in which a rank may already hang."""
    start_worker_server(rank)

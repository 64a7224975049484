"""PyTorch's worker server in a rank is out of reach by the time that the process takes itself down."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

from ddpdoctor.ranks.agent_client import NoAnswer, ask_worker_server

RANK = """
import sys, threading
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.process.worker_server import start_worker_server
rank = Rank(sys.argv[1])
rank.place((), {})
start_worker_server(rank)
print(rank.path("sock"), flush=True)
sys.stdin.read()
"""


def test_a_rank_that_is_asked_until_it_has_gone_ends_well() -> None:
    with (
        tempfile.TemporaryDirectory() as directory,  # a short path: a Unix socket's may have 107 bytes
        subprocess.Popen(
            [sys.executable, "-c", RANK, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as rank,
    ):
        assert rank.stdout is not None
        assert rank.stdin is not None
        socket = Path(rank.stdout.readline().strip())
        assert ask_worker_server(socket, "ping", deadline_seconds=30)
        rank.stdin.close()
        while rank.poll() is None:
            with contextlib.suppress(NoAnswer):
                ask_worker_server(socket, "ping", deadline_seconds=5)
        assert rank.returncode == 0
        assert not socket.exists()

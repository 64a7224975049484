"""What a launcher keeps of its ranks before it ends them."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

from ddpdoctor.agent.inside.process.recorder_socket import ENDING
from ddpdoctor.agent.inside.process.recorders_before_end import keep_all, keeps_before
from ddpdoctor.agent.inside.rank_process import Rank
from tests.waiting import PROGRAM_SECONDS

ANSWER = b"a recorder" * 100_000


def serve(path: Path, answer: bytes | None) -> socket.socket:
    """A rank that answers one request; with None one whose thread never comes to run."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(path))
    server.listen()

    def once() -> None:
        connection, _ = server.accept()
        with connection:
            assert connection.recv(64) == ENDING
            connection.sendall(answer or b"")

    if answer is not None:
        threading.Thread(target=once, daemon=True).start()
    return server


def test_every_rank_that_answers_is_kept_and_none_that_kept_its_own_is_asked(short_dir: Path) -> None:
    sockets = [
        serve(short_dir / "11.ask", ANSWER),
        serve(short_dir / "12.ask", None),
        serve(short_dir / "13.ask", None),
    ]
    (short_dir / "13.recorder").write_bytes(b"its own")
    (short_dir / "14.ask").touch()  # nobody listens any more

    keep_all(str(short_dir))

    assert (short_dir / "11.recorder").read_bytes() == ANSWER
    assert (short_dir / "13.recorder").read_bytes() == b"its own"
    kept = sorted(path.name for path in short_dir.iterdir() if "recorder" in path.name)
    assert kept == ["11.recorder", "13.recorder"]
    for each in sockets:
        each.close()


class Launcher:
    """Ends a process, as PyTorch's handlers do."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended_with: list[object] = []

    def close(self, death_sig: object = None) -> str:
        """Ends it."""
        self.ended_with.append(death_sig)
        return "closed"


def test_who_ends_a_rank_asks_first_and_ends_it_in_any_case(short_dir: Path) -> None:
    server = serve(short_dir / "11.ask", ANSWER)
    keeps_before(Rank(str(short_dir)), Launcher, "close", lambda launcher: launcher.pid)
    rank, no_rank = Launcher(11), Launcher(99)

    assert (no_rank.close(), (short_dir / "11.recorder").exists()) == ("closed", False)
    assert (rank.close(death_sig=15), rank.ended_with) == ("closed", [15])
    assert (short_dir / "11.recorder").read_bytes() == ANSWER
    server.close()


HOOKED = """
import sys
from ddpdoctor.agent.inside.process.exit_hooks import record_children
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.process.recorders_before_end import keep_recorders
rank = Rank(sys.argv[1])
record_children(rank)  # both follow `multiprocessing.popen_fork`
keep_recorders(rank)
from multiprocessing.popen_fork import Popen
from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler
print(Popen._send_signal.__wrapped__.__name__, SubprocessHandler.close.__wrapped__.__name__)
"""


def test_torchrun_and_spawn_do_so(short_dir: Path) -> None:
    command = [sys.executable, "-c", HOOKED, str(short_dir)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False)
    assert (ended.stdout.split(), ended.returncode) == (["_send_signal", "close"], 0), ended.stderr

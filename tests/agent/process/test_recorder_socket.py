"""What a rank hands out of its flight recorder, and what that costs it."""

from __future__ import annotations

import errno
import os
import pickle
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import cast

import pytest

from ddpdoctor.agent.inside.process import recorder_socket
from ddpdoctor.agent.inside.process.recorder_socket import CALLS, RECORDER, STATUS
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.ranks.agent_client import NoAnswer, ask_agent
from tests.waiting import PROGRAM_SECONDS

RANK = """
import sys
import torch
import torch.distributed as dist
from ddpdoctor.agent.inside.process.recorder_socket import recorder_pickle

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(2))
sys.stdout.buffer.write(recorder_pickle())
assert "torch._inductor" not in sys.modules, "the compiler was imported"
assert torch._inductor.__file__, "torch has lost its compiler"
"""


def test_a_rank_that_compiles_nothing_shows_its_lines_without_importing_the_compiler() -> None:
    environ = {**os.environ, "TORCH_FR_BUFFER_SIZE": "10"}
    ended = subprocess.run(
        [sys.executable, "-c", RANK], env=environ, capture_output=True, timeout=PROGRAM_SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode()
    (entry,) = pickle.loads(ended.stdout)["entries"]
    assert ("<module>", 8) in {(frame["name"], frame["line"]) for frame in entry["frames"]}


PARTS = """
import sys
import torch
import torch.distributed as dist
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.process.recorder_socket import answer_requests

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for _ in range(3):
    dist.all_reduce(torch.ones(2))
rank = Rank(sys.argv[1])
rank.place((), {})
answer_requests(rank)
print(rank.path("ask"), flush=True)
sys.stdin.read()
"""


def test_a_rank_hands_out_parts_of_its_recorder() -> None:
    with (
        tempfile.TemporaryDirectory() as directory,  # a short path: a Unix socket's may have 107 bytes
        subprocess.Popen(
            [sys.executable, "-c", PARTS, directory],
            env={**os.environ, "TORCH_FR_BUFFER_SIZE": "10"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as rank,
    ):
        assert rank.stdout is not None
        assert rank.stdin is not None
        path = Path(rank.stdout.readline().strip())
        whole, calls, status = (
            pickle.loads(ask_agent(path, request, deadline_seconds=60)) for request in (RECORDER, CALLS, STATUS)
        )
        with pytest.raises(NoAnswer):
            ask_agent(path, b"anything else\n", deadline_seconds=60)
        rank.stdin.close()
    assert len(whole["entries"]) == len(calls["entries"]) == 3
    assert all(entry["frames"] for entry in whole["entries"])
    assert not any(entry.get("frames") for entry in calls["entries"])
    assert status["pg_status"] == whole["pg_status"]
    assert not status.get("entries")


WHILE_IT_DUMPS = """
import threading
import torch
from ddpdoctor.agent.inside.process.recorder_socket import _without_inductor

dumps, compiled = threading.Event(), threading.Event()

def dump():
    with _without_inductor():
        assert not hasattr(torch._inductor, "codecache")
        dumps.set()
        assert compiled.wait(60)

thread = threading.Thread(target=dump)
thread.start()
assert dumps.wait(60)
from torch import _inductor
assert _inductor.config.cpp, "another thread was shown no compiler"
compiled.set()
thread.join()
import torch._inductor.config
assert torch._inductor.config is _inductor.config
"""


def test_a_job_that_compiles_while_its_recorder_is_dumped_finds_the_compiler() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WHILE_IT_DUMPS], capture_output=True, timeout=PROGRAM_SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode()


class Full:
    """A socket whose process has no descriptor free at first, and that is gone in the end."""

    def __init__(self) -> None:
        self.asked = 0

    def accept(self) -> tuple[socket.socket, str]:
        self.asked += 1
        raise OSError(errno.EMFILE if self.asked < 3 else errno.EBADF, "")


def test_a_rank_out_of_descriptors_answers_again_when_it_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_socket, "ACCEPT_AGAIN_SECONDS", 0.0)
    full = Full()
    recorder_socket._serve(cast("socket.socket", full), Rank("/nowhere"))
    assert full.asked == 3

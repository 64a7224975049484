"""Ctrl-C and SIGKILL in the middle of a command that works, and a port that is taken: said, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.free_port import free_port
from tests.waiting import PROGRAM_SECONDS, within

SLEEPER = """
import time
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
time.sleep(600)
"""
STARTING_RANKS = 5  # ddpdoctor, the subreaper, torchrun and two ranks
COMMANDS = {
    "net": (["net", "--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", "PORT"], 2),
    "env of one rank": (["env"], 4),
    "smoke": (["smoke", "--nproc", "2"], STARTING_RANKS),
    "verify-sync": (["verify-sync", "--nproc", "2"], STARTING_RANKS),
    "verify-sync SCRIPT": (["verify-sync", "--nproc", "2", "SCRIPT"], STARTING_RANKS),
    "train --inject": (["train", "--inject", "DDP307", "--nproc", "2"], STARTING_RANKS),
}
SPEAKS_FOR_ITSELF = (
    "verify-sync SCRIPT",
    "train --inject",
)  # stderr is the job's, where torchrun tells how it was ended
CHEAP = ("net", "env of one rank")


@contextmanager
def taken_port(*, listens: bool) -> Iterator[str]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", free_port()))
        if listens:
            holder.listen()
        yield str(holder.getsockname()[1])


def ours(temporary: Path) -> list[psutil.Process]:
    """Every living process that inherited this TMPDIR, whoever its parent is by now."""
    return [process for process in psutil.process_iter() if lives_with(process, temporary)]


def lives_with(process: psutil.Process, temporary: Path) -> bool:
    try:
        return process.environ().get("TMPDIR") == str(temporary) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize(
    "command", [name if name in CHEAP else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]
)
def test_an_end_in_the_middle_leaves_nothing_behind(command: str, number: signal.Signals, tmp_path: Path) -> None:
    arguments, processes = COMMANDS[command]
    temporary, script = tmp_path / "tmp", tmp_path / "sleeper.py"
    temporary.mkdir()
    script.write_text(SLEEPER)
    with taken_port(listens=False) as port:
        free = port
    known = {"PORT": free, "SCRIPT": str(script)}
    environ = {**os.environ, "TMPDIR": str(temporary), "XDG_RUNTIME_DIR": ""}
    if command == "env of one rank":
        environ |= {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free}
    us = subprocess.Popen(
        [sys.executable, "-m", "ddpdoctor", *(known.get(word, word) for word in arguments)],
        env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        came_up = within(lambda: len(ours(temporary)) >= processes or us.poll() is not None, seconds=120)
        assert us.poll() is None, (us.returncode, us.stderr.read())
        assert came_up, [process.cmdline() for process in ours(temporary)]
        us.send_signal(number)
        _, said = us.communicate(timeout=PROGRAM_SECONDS)
    finally:
        us.kill()
    assert within(lambda: not ours(temporary)), [process.cmdline() for process in ours(temporary)]
    if number is signal.SIGINT:
        assert us.returncode == 130
        assert said.endswith("ddpdoctor: interrupted\n")
        assert "Traceback" not in said or command in SPEAKS_FOR_ITSELF
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["allreduce-bench", "--sizes", "1K"], "the benchmark"),
        pytest.param(["verify-sync"], "the comparison", marks=pytest.mark.slow),
        pytest.param(["train"], "the training job", marks=pytest.mark.slow),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_port_that_is_taken_is_named(command: list[str], what: str) -> None:
    with taken_port(listens=True) as port:
        rank = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ended = subprocess.run(
            [sys.executable, "-m", "ddpdoctor", *command, "--format", "github"],
            env={**os.environ, **rank}, capture_output=True, text=True, timeout=150, check=False,
        )  # fmt: skip
    assert ended.returncode == 3, ended.stderr
    assert (
        f"{what} could not start: another program uses port {port}; `ddpdoctor port {port}` shows which" in ended.stdout
    )

"""The bytes that move over the connection that a process waits for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddpdoctor.host.connections import moved_between, moved_bytes, waited_for
from ddpdoctor.host.system_calls import system_call
from ddpdoctor.ranks.wakes import bytes_within
from tests.waiting import within

READS = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=eval(sys.argv[2]))
print(flush=True)
while connection.recv(1 << 16): pass
"""
WAITS = "import threading; print(flush=True); lock = threading.Lock(); lock.acquire(); lock.acquire()"
KNOWN = bool(moved_bytes())


@contextmanager
def reader(timeout: float | None) -> Iterator[tuple[int, socket.socket]]:
    """A process that reads from a connection, and the other end of it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = [sys.executable, "-c", READS, str(server.getsockname()[1]), str(timeout)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
            peer, _ = server.accept()
            assert process.stdout is not None
            process.stdout.readline()
            with peer:
                yield process.pid, peer
            process.kill()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("timeout", [None, 50.0])
def test_a_reader_that_gets_something_and_one_that_gets_nothing(timeout: float | None) -> None:
    with reader(timeout) as (pid, peer):
        assert within(lambda: len(waited_for(pid)) == 1)
        if not KNOWN:
            pytest.skip("the kernel does not list connections here")
        sockets = {pid: waited_for(pid)}
        assert bytes_within(sockets, 0.3) == {pid: 0}
        before = moved_bytes()
        peer.sendall(bytes(5000))
        assert within(lambda: moved_between(sockets, before, moved_bytes()) == {pid: 5000})


def test_a_process_that_waits_for_no_connection() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        assert waited_for(process.pid) == frozenset()
        process.kill()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("wait", "call"),
    [
        ("import threading; lock = threading.Lock(); lock.acquire(); lock.acquire(timeout=500)", "futex"),
        ("import socket; one, _ = socket.socketpair(); one.settimeout(500); one.recv(1)", "poll"),
    ],
)
def test_a_wait_that_was_interrupted_keeps_its_name(wait: str, call: str) -> None:
    with subprocess.Popen([sys.executable, "-c", wait]) as process:
        try:
            assert within(lambda: system_call(process.pid)[0] == call)
            if not can_be_read(f"/proc/{process.pid}/wchan"):
                pytest.skip("the kernel's function cannot be read here")
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            process.send_signal(signal.SIGCONT)
            assert within(lambda: restarted(process.pid))
            assert system_call(process.pid)[0] == call
        finally:
            process.kill()


def restarted(pid: int) -> bool:
    """Whether the kernel shows the call that goes on as another one."""
    return Path(f"/proc/{pid}/syscall").read_text(encoding="utf-8").startswith(("219 ", "128 "))


def can_be_read(file: str) -> bool:
    """Whether the kernel shows this file, with something in it."""
    try:
        return Path(file).read_text(encoding="utf-8").strip("0") != ""
    except OSError:
        return False


def test_a_connection_that_was_closed_or_is_new_tells_nothing() -> None:
    assert moved_between({7: {1, 2}, 8: {3}, 9: {4}}, {1: 5, 2: 5, 3: 5}, {1: 9, 4: 9}) == {7: 4}

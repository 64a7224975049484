"""`ddpdoctor port` names whatever keeps rank 0 from listening, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ddpdoctor import cli
from tests.free_port import free_port
from tests.waiting import PROGRAM_SECONDS

# each holds `port` until its stdin closes
LISTENER = "s = socket.create_server(('127.0.0.1', port))"
IPV6_ONLY = """
s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
s.bind(('::', port)); s.listen()
"""
CLIENT = """
s = socket.create_server(('127.0.0.1', 0))
c = socket.create_connection(s.getsockname(), source_address=('127.0.0.1', port))
"""
UDP = "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', port))"
TIME_WAIT = """
s = socket.create_server(('127.0.0.1', port))
c = socket.create_connection(('127.0.0.1', port)); a = s.accept()[0]
a.close(); c.close(); s.close()
"""


@contextlib.contextmanager
def program(holds: str) -> Iterator[tuple[int, int]]:
    """A process that holds a port; its pid and the port."""
    port = free_port()
    code = f"import socket, sys\nport = {port}\n{holds}\nprint(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "\n", "the port was taken meanwhile"
        yield holder.pid, port
        holder.stdin.close()


@pytest.mark.parametrize("holds", [LISTENER, IPV6_ONLY, CLIENT], ids=["one address", "IPv6 only", "a connection"])
def test_the_process_that_holds_the_port_is_named(holds: str, capfd: pytest.CaptureFixture[str]) -> None:
    if holds is IPV6_ONLY and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with program(holds) as (pid, port):
        assert cli.run(["port", str(port), "--format", "json"]) == 1
    (finding,) = (each for each in json.loads(capfd.readouterr().out)["findings"] if each["code"] == "DDP202")
    assert (finding["measured"]["pid"], finding["measured"]["port"]) == (pid, port)


@pytest.mark.parametrize("holds", [UDP, TIME_WAIT], ids=["UDP", "TIME_WAIT"])
def test_what_keeps_nobody_from_listening_is_free(holds: str, capfd: pytest.CaptureFixture[str]) -> None:
    with program(holds) as (_, port):
        assert cli.run(["port", str(port)]) == 0
    assert f"port {port} is free" in capfd.readouterr().out


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="becoming another user needs root")
def test_a_low_port_is_not_held_by_anybody_where_one_may_not_listen() -> None:
    port = next(port for port in range(700, 1000) if _is_free(port))
    other = ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-m", "ddpdoctor", "port", str(port)]
    ended = subprocess.run(other, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False, cwd="/")
    assert ended.returncode == 2, ended.stderr
    assert f"port {port} is free, but only root may listen" in ended.stderr


@pytest.mark.parametrize("text", ["0", "65536", "http", "-1"])
def test_what_is_no_port_is_refused(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["port", text]) == 2
    assert "Traceback" not in capfd.readouterr().err


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        return candidate.connect_ex(("127.0.0.1", port)) != 0

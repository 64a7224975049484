"""A rank's sockets, and NCCL's, are asked under one deadline: whoever sends a byte at a time holds nobody up."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddpdoctor.ranks import nccl_ras
from ddpdoctor.ranks.agent_client import NoAnswer, ask_agent, ask_worker_server

DEADLINE, GENEROUS = 0.2, 10.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


@contextlib.contextmanager
def listening(listener: socket.socket, answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """Whoever connects is answered so, each in turn; nobody is any more once the context ends."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(1000)
                    answer(connection)

    with listener:
        listener.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(GENEROUS)


def unix(folder: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "s"))
    return listener


def tcp() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    return listener


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def trickle(head: bytes) -> Callable[[socket.socket], None]:
    """`head`, and then a byte each 5 ms as long as somebody reads."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(4000):
            connection.sendall(b"x")
            time.sleep(0.005)

    return answer


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nA: ",
        HEAD.replace(b"5", b"9" * 9),
        b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    ],
    ids=["nothing", "status", "header", "body", "100 Continue"],
)
def test_a_trickle_ends_with_the_deadline(tmp_path: Path, head: bytes) -> None:
    with listening(unix(tmp_path), trickle(head)):
        start = time.monotonic()
        for ask in (
            lambda: ask_agent(tmp_path / "s", deadline_seconds=DEADLINE),
            lambda: ask_worker_server(tmp_path / "s", "fr_trace_json", deadline_seconds=DEADLINE),
        ):
            with pytest.raises(NoAnswer, match=r"no answer within 0\.2 s"):
                ask()
        assert time.monotonic() - start < GENEROUS


@pytest.mark.timeout(60)
def test_an_answer_is_read_whole(tmp_path: Path) -> None:
    def answer(connection: socket.socket) -> None:
        for part in (HEAD[:10], HEAD[10:], b"he", b"llo"):
            connection.sendall(part)
            time.sleep(0.01)

    with listening(unix(tmp_path), answer):
        assert ask_agent(tmp_path / "s", deadline_seconds=GENEROUS) == HEAD + b"hello"
        assert ask_worker_server(tmp_path / "s", "dump_traceback", deadline_seconds=GENEROUS) == b"hello"


@pytest.mark.timeout(60)
def test_ras_that_trickles_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy host the thread that answers may need longer than the shortest deadline to begin."""
    with listening(on_tcp := tcp(), trickle(b"begun")):
        for seconds in (DEADLINE, 8 * DEADLINE, GENEROUS):
            monkeypatch.setattr(nccl_ras, "SECONDS", seconds)
            if said := nccl_ras.ask(f"127.0.0.1:{port_of(on_tcp)}"):
                break
        assert said.startswith("begun")


@pytest.mark.timeout(60)
def test_ras_is_asked_at_the_next_address_where_the_host_lacks_a_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `localhost` on a host without IPv6: ::1 comes first, and no socket of its family can be made."""
    with listening(on_tcp := tcp(), lambda connection: connection.sendall(b"here")):
        where = ("127.0.0.1", port_of(on_tcp))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(255, 1, 6, "", where), (2, 1, 6, "", where)])
        monkeypatch.setattr(nccl_ras, "SECONDS", GENEROUS)
        assert nccl_ras.ask("localhost:28028") == "here"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("port", ["9" * 25, "99999999", "-5", "²", "", "0"])
@pytest.mark.parametrize("host", ["localhost", "a" * 70, "\udc80", "x\0", "[::"])
def test_an_address_that_is_none_is_no_crash(host: str, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable of a job is any text that its user wrote there."""
    monkeypatch.setattr(nccl_ras, "SECONDS", DEADLINE)
    assert nccl_ras.ask(f"{host}:{port}") == ""

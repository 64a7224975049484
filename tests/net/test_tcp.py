"""The listener talks to its own job, and hangs up on everybody else."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import ExitStack, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddpdoctor.net import tcp
from ddpdoctor.net.link_test import talk
from ddpdoctor.net.tcp import (
    HELLO,
    MAGIC,
    PROOF_BYTES,
    REQUEST,
    Listener,
    WrongPeer,
    call,
    echo,
    proof,
    receive,
    stream,
)

KEY = b"k" * 32


def key_of(node: int) -> bytes | None:
    return KEY if node < 64 else None


@pytest.fixture(scope="module")
def listener():
    with Listener("127.0.0.1", key_of, 7, lifetime_seconds=120) as made:
        yield made


def greeted(listener: Listener) -> socket.socket:
    return call("127.0.0.1", listener.port, KEY, 1, 7, timeout_seconds=5)


def hung_up(connection: socket.socket) -> bool:
    connection.settimeout(5)
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        return True
    return True


def test_a_node_of_the_job_gets_its_echo_and_its_stream(listener: Listener) -> None:
    with greeted(listener) as connection:
        assert 0 < echo(connection, 64) < 5
        assert 0 < echo(connection, 64 << 10) < 5
        assert 0 < stream(connection, 1 << 20) < 5


def test_talk_measures_a_good_link(listener: Listener) -> None:
    link = talk(1, 7, "127.0.0.1", listener.port, KEY)
    assert (link.source, link.target, link.outcome) == (1, 7, "ok")
    assert link.latency_seconds > 0
    assert link.bytes_per_second > 1e6


@pytest.mark.parametrize(("key", "wanted"), [(b"x" * 32, 7), (KEY, 8)], ids=["wrong key", "wrong node"])
def test_a_stranger_is_told_from_a_peer(listener: Listener, key: bytes, wanted: int) -> None:
    with pytest.raises(WrongPeer):
        call("127.0.0.1", listener.port, key, 1, wanted, timeout_seconds=5)


def test_a_foreign_service_is_no_peer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n" + b" " * 100)

        thread = threading.Thread(target=serve)
        thread.start()
        link = talk(0, 1, "127.0.0.1", server.getsockname()[1], KEY)
        thread.join(5)
    assert link.outcome in {"foreign", "reset"}


def test_nobody_there_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert talk(0, 1, "127.0.0.1", port, KEY).outcome == "refused"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=st.binary(min_size=0, max_size=200))
def test_garbage_is_hung_up_on_without_a_byte_of_answer(listener: Listener, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", listener.port), timeout=5) as connection:
        with suppress(OSError):  # it may have hung up already
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            assert connection.recv(4096) == b""


def test_two_thousand_strangers_keep_no_node_of_the_job_out(listener: Listener) -> None:
    with ExitStack() as stack:
        for _ in range(2000):
            stack.enter_context(socket.create_connection(("127.0.0.1", listener.port), timeout=20))
        link = talk(1, 7, "127.0.0.1", listener.port, KEY)
    assert link.outcome == "ok", link.detail


@pytest.mark.parametrize(("letter", "size"), [(b"E", 2**31), (b"E", (1 << 20) + 1), (b"S", 2**32 - 1), (b"?", 1)])
def test_oversized_and_unknown_requests_end_the_connection(listener: Listener, letter: bytes, size: int) -> None:
    with greeted(listener) as connection:
        connection.sendall(REQUEST.pack(letter, size))
        assert hung_up(connection)


class Recorder:
    """Sits between a caller and the listener, and keeps what the caller sends."""

    def __init__(self, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._inside = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.port: int = self._server.getsockname()[1]
        self.sent = b""
        self._threads = [threading.Thread(target=self._forward, daemon=True)]
        self._threads[0].start()

    def _forward(self) -> None:
        outside, _ = self._server.accept()
        back = threading.Thread(target=self._pass_on, args=(self._inside, outside), daemon=True)
        self._threads.append(back)
        back.start()
        with outside:
            self.sent = self._pass_on(outside, self._inside)
            back.join(10)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> bytes:
        passed = b""
        with suppress(OSError):
            while data := source.recv(4096):
                passed += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        return passed

    def close(self) -> None:
        self._threads[0].join(10)
        self._inside.close()
        self._server.close()


def test_a_recorded_conversation_gives_nothing_to_who_repeats_it() -> None:
    with Listener("127.0.0.1", key_of, 7, lifetime_seconds=60) as listener:
        recorder = Recorder(listener.port)
        with call("127.0.0.1", recorder.port, KEY, 1, 7, timeout_seconds=5) as connection:
            echo(connection, 64)
        recorder.close()
        assert len(recorder.sent) > HELLO.size + 64
        with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as connection:
            answer = b""
            with suppress(ConnectionError):
                connection.sendall(recorder.sent)
                while data := connection.recv(4096):
                    answer += data
        assert len(answer) <= HELLO.size  # its hello, and neither its proof nor an echo
        (refused,) = listener.refused
    assert refused.startswith("127.0.0.1:")
    assert refused.endswith("says that it is node 1 and does not know that node's key")
    assert KEY not in recorder.sent


def test_a_listener_that_repeats_a_recorded_proof_is_no_peer() -> None:
    """It has heard another conversation of node 7, and sends what node 7 has sent there."""
    with Listener("127.0.0.1", key_of, 7, lifetime_seconds=60) as listener, ExitStack() as stack:
        real = stack.enter_context(socket.create_connection(("127.0.0.1", listener.port), timeout=10))
        hello = HELLO.pack(MAGIC, 1, b"n" * 32)
        real.sendall(hello)
        theirs = receive(real, HELLO.size)
        real.sendall(proof(KEY, b"caller", hello, theirs))
        recorded = theirs + receive(real, PROOF_BYTES)
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def repeats() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(recorded)
                with suppress(ConnectionError):
                    connection.recv(4096)

        thread = threading.Thread(target=repeats)
        thread.start()
        link = talk(1, 7, "127.0.0.1", server.getsockname()[1], KEY)
        thread.join(10)
    assert (link.outcome, link.detail) == (
        "foreign",
        "the listener says that it is node 7 and does not know that node's key",
    )


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"ddpdoc/2" + b"x" * 60, "speaks another version of the protocol: b'ddpdoc/2' instead of b'ddpdoc/4'"),
        (b"GET / HTTP/1.1\r\n\r\n", "speaks another protocol: b'GET / HT' instead of b'ddpdoc/4'"),
        (HELLO.pack(MAGIC, 99, b"n" * 32), "says that it is node 99, which is no other node of this job"),
        (HELLO.pack(MAGIC, 1, b"n" * 32)[:-1], "ended the connection or fell silent during the handshake"),
        (HELLO.pack(MAGIC, 1, b"n" * 32) + b"p" * 32, "says that it is node 1 and does not know that node's key"),
    ],
    ids=["another version", "another protocol", "no such node", "half a hello", "a wrong proof"],
)
def test_who_is_refused_is_named_with_the_reason(sent: bytes, why: str) -> None:
    with Listener("127.0.0.1", key_of, 7, lifetime_seconds=60) as listener:
        with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as connection:
            own = "{}:{}".format(*connection.getsockname())
            with suppress(OSError):
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while connection.recv(4096):
                    pass
        assert listener.refused == (f"{own} {why}",)


def test_a_byte_now_and_then_keeps_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "GREETING_SECONDS", 0.5)
    with Listener("127.0.0.1", key_of, 7, lifetime_seconds=60) as listener:
        with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as connection:
            ended = threading.Event()

            def drips() -> None:
                with suppress(OSError):
                    for byte in HELLO.pack(MAGIC, 1, b"n" * 32):
                        connection.sendall(bytes([byte]))
                        if ended.wait(0.1):
                            return

            thread = threading.Thread(target=drips)
            thread.start()
            assert hung_up(connection)  # 4.4 s before its hello is whole
            ended.set()
            thread.join(5)
        assert talk(1, 7, "127.0.0.1", listener.port, KEY).outcome == "ok"


def test_a_thousand_reasons_of_strangers_take_no_more_room_than_twenty(listener: Listener) -> None:
    for number in range(1000):
        listener._note(("10.0.0.1", number), f"reason {number}")
    assert len(listener.refused) <= tcp.MOST_REFUSALS


def test_the_port_is_closed_afterwards() -> None:
    with Listener("127.0.0.1", key_of, 0, lifetime_seconds=60) as listener:
        port = listener.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_the_listener_ends_by_its_lifetime() -> None:
    with Listener("127.0.0.1", key_of, 0, lifetime_seconds=0.1) as listener:
        listener._thread.join(5)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", listener.port), timeout=5)


def test_the_wire_format_is_fixed() -> None:
    assert HELLO.size == 8 + 4 + 32
    assert PROOF_BYTES == 32
    assert struct.calcsize("!cI") == REQUEST.size

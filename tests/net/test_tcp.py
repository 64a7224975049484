"""The listener talks to its own job, and hangs up on everybody else."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import ExitStack, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddpdoctor.net.link_test import talk
from ddpdoctor.net.tcp import HELLO, MAGIC, REQUEST, Listener, Stranger, call, echo, proof, stream

TOKEN = b"t" * 32


@pytest.fixture(scope="module")
def listener():
    with Listener("127.0.0.1", TOKEN, 7, lifetime_seconds=120) as made:
        yield made


def greeted(listener: Listener) -> socket.socket:
    return call("127.0.0.1", listener.port, TOKEN, 1, 7, timeout_seconds=5)


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
    link = talk(1, 7, "127.0.0.1", listener.port, TOKEN)
    assert (link.source, link.target, link.outcome) == (1, 7, "ok")
    assert link.latency_seconds > 0
    assert link.bytes_per_second > 1e6


@pytest.mark.parametrize(("token", "wanted"), [(b"x" * 32, 7), (TOKEN, 8)], ids=["wrong token", "wrong node"])
def test_a_stranger_is_told_from_a_peer(listener: Listener, token: bytes, wanted: int) -> None:
    with pytest.raises(Stranger):
        call("127.0.0.1", listener.port, token, 1, wanted, timeout_seconds=5)


def test_a_foreign_service_is_no_peer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n" + b" " * 100)

        thread = threading.Thread(target=serve)
        thread.start()
        link = talk(0, 1, "127.0.0.1", server.getsockname()[1], TOKEN)
        thread.join(5)
    assert link.outcome in {"foreign", "reset"}


def test_nobody_there_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert talk(0, 1, "127.0.0.1", port, TOKEN).outcome == "refused"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=st.binary(min_size=0, max_size=200))
def test_garbage_is_hung_up_on_without_a_byte_of_answer(listener: Listener, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", listener.port), timeout=5) as connection:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            assert connection.recv(4096) == b""


def test_two_thousand_strangers_keep_no_node_of_the_job_out(listener: Listener) -> None:
    with ExitStack() as stack:
        for _ in range(2000):
            stack.enter_context(socket.create_connection(("127.0.0.1", listener.port), timeout=20))
        link = talk(1, 7, "127.0.0.1", listener.port, TOKEN)
    assert link.outcome == "ok", link.detail


@pytest.mark.parametrize(("letter", "size"), [(b"E", 2**31), (b"E", (1 << 20) + 1), (b"S", 2**32 - 1), (b"?", 1)])
def test_oversized_and_unknown_requests_end_the_connection(listener: Listener, letter: bytes, size: int) -> None:
    with greeted(listener) as connection:
        connection.sendall(REQUEST.pack(letter, size))
        assert hung_up(connection)


def test_a_greeting_replayed_for_another_node_is_refused(listener: Listener) -> None:
    nonce = b"n" * 16
    with socket.create_connection(("127.0.0.1", listener.port), timeout=5) as connection:
        connection.sendall(HELLO.pack(MAGIC, nonce, proof(TOKEN, b"caller", nonce, 1), 2))
        assert hung_up(connection)


def test_the_port_is_closed_afterwards() -> None:
    with Listener("127.0.0.1", TOKEN, 0, lifetime_seconds=60) as listener:
        port = listener.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_the_listener_ends_by_its_lifetime() -> None:
    with Listener("127.0.0.1", TOKEN, 0, lifetime_seconds=0.1) as listener:
        listener._thread.join(5)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", listener.port), timeout=5)


def test_the_wire_format_is_fixed() -> None:
    assert HELLO.size == 8 + 16 + 32 + 4
    assert struct.calcsize("!cI") == REQUEST.size

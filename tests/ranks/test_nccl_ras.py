"""NCCL's RAS port: a server that answers as the port does, and the sentences that come of it."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from ddpdoctor.ranks import nccl_ras

# in the layout of the section "Sample Output" of NCCL's user guide; the job is ours
STOPPED = """\
Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          2            1          4        4

Communicators... (2.05s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2       1-2         4         4   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 4101 on node 10.0.0.2 managing GPU 1

#0-0 (00c0ffee00c0ffee) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 3

Warnings
========

#0-0 (00c0ffee00c0ffee) MISMATCH
  Communicator ranks have different collective operation counts
  2 ranks have launched up to operation 17
  1 rank has launched up to operation 16
  Rank 2 -- GPU 0 managed by process 4100 on node 10.0.0.2

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data
"""
HEALTHY = STOPPED.partition("Errors\n======")[0].replace("INCOMPLETE", "OK")


def answered_by(text: str) -> tuple[str, list[bytes]]:
    """The address of a server that answers one question with `text`, and what it was asked."""
    server = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def serve() -> None:
        with server, server.accept()[0] as connection:
            asked.append(connection.recv(1000))
            connection.sendall(text.encode())

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{server.getsockname()[1]}", asked


def test_every_complaint_is_one_sentence_with_the_rank_of_a_process_that_is_ours() -> None:
    address, asked = answered_by(STOPPED)
    said = [*nccl_ras.complaints(nccl_ras.ask(address), {4101: 3, 4100: 2}, {"10.0.0.2"})]
    assert asked == [b"verbose status\n"]
    assert said == [
        (
            "NCCL RAS: INCOMPLETE: Missing communicator data from 1 job process; "
            "Process 4101 (rank 3) on node 10.0.0.2 managing GPU 1"
        ),
        "NCCL RAS: #0-0 (00c0ffee00c0ffee) INCOMPLETE: Missing communicator data from 1 rank; The missing rank: 3",
        (
            "NCCL RAS: #0-0 (00c0ffee00c0ffee) MISMATCH: Communicator ranks have different collective operation counts; "
            "2 ranks have launched up to operation 17; 1 rank has launched up to operation 16; "
            "Rank 2 -- GPU 0 managed by process 4100 (rank 2) on node 10.0.0.2"
        ),
        "NCCL RAS: TIMEOUT: Encountered 2 communication timeouts while gathering communicator data",
    ]


def test_a_process_of_another_host_that_has_the_same_number_is_not_ours() -> None:
    assert not any("(rank" in said for said in nccl_ras.complaints(STOPPED, {4101: 0, 4100: 1}, {"10.0.0.1"}))


def test_a_healthy_job_gets_silence() -> None:
    address, _ = answered_by(HEALTHY)
    assert [*nccl_ras.complaints(nccl_ras.ask(address), {}, ())] == []


def test_a_long_list_is_shortened() -> None:
    outliers = "".join(f"  Rank {rank} -- GPU 0 managed by process {rank} on node n\n" for rank in range(100))
    (said,) = nccl_ras.complaints(f"Errors\n======\n\n#0-0 (1) MISMATCH\n{outliers}", {}, ())
    assert said.endswith("Rank 5 -- GPU 0 managed by process 5 on node n; and 94 more lines")


def test_a_stranger_that_never_comes_to_an_end_is_left_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_ras, "SECONDS", 0.5)
    left = threading.Event()

    def trickle(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            while not left.wait(0.05):
                connection.sendall(b".")

    with socket.create_server(("127.0.0.1", 0)) as server:
        stranger = threading.Thread(target=trickle, args=(server,), daemon=True)
        stranger.start()
        asking = threading.Thread(target=nccl_ras.ask, args=(f"127.0.0.1:{server.getsockname()[1]}",), daemon=True)
        asking.start()
        asking.join(30)
        left.set()
        assert not asking.is_alive()
        stranger.join(30)


def test_nobody_at_the_port_and_an_address_that_is_none_give_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert nccl_ras.ask(f"127.0.0.1:{port}") == ""
    assert nccl_ras.ask("nonsense") == ""
    assert [*nccl_ras.complaints("\x00 not RAS at all", {}, ())] == []

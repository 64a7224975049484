"""The transports of NCCL, forced one after the other, on a stand-in for the program that sums on GPUs: no GPU is here."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ddpdoctor.evidence.nccl import NcclTry
from ddpdoctor.host import nccl_transport_test
from ddpdoctor.host.nccl_transport_test import gpus_for_nccl, try_transports

# logs as NCCL does where it is told to, takes the way that the variables leave it, and then what a test adds
STAND_IN = """
import json, os, sys, time
closed = os.environ["NCCL_P2P_DISABLE"], os.environ["NCCL_SHM_DISABLE"]
way = {("0", "1"): "P2P/IPC", ("1", "0"): "SHM/direct", ("1", "1"): "NET/Socket/0"}[closed]
log = os.environ["NCCL_DEBUG_FILE"].replace("%h", "gpu1").replace("%p", str(os.getpid()))
with open(log, "w") as file:
    print("gpu1:9:9 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0", file=file)
    print(f"gpu1:9:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {way}", file=file)
assert os.environ["NCCL_DEBUG"] == "INFO"
wrong = ""
"""
SAYS = 'print(json.dumps({"rank": 0, "wrong": wrong}))'


def tried(folder: Path, ending: str = "", seconds: float = 90) -> dict[str, NcclTry]:
    program = folder / "sums.py"
    program.write_text(f"{STAND_IN}{ending}\n{SAYS}\n")

    def command(_gpus: int, _logs: str) -> Sequence[str]:
        return [sys.executable, str(program)]

    return {each.transport: each for each in try_transports(0, 2, until=time.monotonic() + seconds, command=command)}


def test_each_transport_is_forced_and_seen_in_the_log(tmp_path: Path) -> None:
    found = tried(tmp_path)
    assert {transport: each.outcome for transport, each in found.items()} == {"P2P": "ok", "SHM": "ok", "NET": "ok"}
    assert found["SHM"].logs[0].transports == ("SHM",)


def test_a_sum_that_came_another_way_does_not_speak_for_the_one_forced(tmp_path: Path) -> None:
    found = tried(
        tmp_path, "if way[0] == 'P': open(log, 'w').write(open(log).read().replace('P2P/IPC', 'NET/Socket/0'))"
    )
    assert (found["P2P"].outcome, found["SHM"].outcome) == ("not-taken", "ok")


def test_a_wrong_sum_an_error_and_a_failed_diagnostic_are_told_apart(tmp_path: Path) -> None:
    ending = """
if way[0] == 'P': print('gpu1:9 NCCL DIAG [INFO] p2p: only 1/2 GPU-to-GPU peer accesses passed verification')
if way[0] == 'S': wrong = '1 instead of 3 in 4 of 8 elements'
if way[0] == 'N': sys.exit('RuntimeError: NCCL error')
"""
    found = tried(tmp_path, ending)
    assert {transport: each.outcome for transport, each in found.items()} == {
        "P2P": "failed",
        "SHM": "wrong",
        "NET": "failed",
    }
    assert found["SHM"].detail == "rank 0 got 1 instead of 3 in 4 of 8 elements"
    assert "1/2" in found["P2P"].remarks[0]


def test_one_that_hangs_is_ended_and_its_ras_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_transport_test, "TRY_SECONDS", 3.0)
    monkeypatch.setattr(nccl_transport_test, "LEAST_SECONDS", 0.0)
    ending = """
import socket
if way[0] == 'P':
    host, port = os.environ['NCCL_RAS_ADDR'].split(':')
    with socket.create_server((host, int(port))) as server:
        asked = server.accept()[0]
        assert asked.recv(100) == b'verbose status\\n'
        asked.sendall(b'Errors\\n======\\n\\nINCOMPLETE\\n  Missing 1 rank\\n\\n')
        asked.close()
        time.sleep(60)
"""
    found = tried(tmp_path, ending)
    assert {transport: each.outcome for transport, each in found.items()} == {"P2P": "hung", "SHM": "ok", "NET": "ok"}
    assert found["P2P"].remarks == ("NCCL RAS: INCOMPLETE: Missing 1 rank",)


def test_without_time_nothing_is_begun(tmp_path: Path) -> None:
    assert tried(tmp_path, seconds=nccl_transport_test.LEAST_SECONDS) == {}


def test_a_host_without_gpus_says_so(tmp_path: Path) -> None:
    assert gpus_for_nccl(tmp_path) == (0, "no GPU")

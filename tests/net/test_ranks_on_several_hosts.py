"""`ddpdoctor env` and `ddpdoctor allreduce-bench` under torchrun over several hosts: which host is odd, which one slow."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch

from tests.net.namespaces import HOUR_AHEAD, LONGER, PORT, RARE, Hosts, Said, culprits, said_by, why_not
from tests.waiting import within

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "can"),
    pytest.mark.timeout(400),
]


BENCH = ("-m", "ddpdoctor", "allreduce-bench", "--sizes", "1K,1M", "--iters", "5", "--format", "json")


@LONGER
def test_env_names_each_host_that_is_odd_in_something(hosts: Hosts, tmp_path: Path) -> None:
    version = Path(torch.__file__).parent / "version.py"
    hosts.files[1] = {str(version): version.read_text().replace(torch.__version__, "2.2.1")}
    hosts.files[2] = {"/etc/os-release": 'PRETTY_NAME="Another Linux 3"\n'}
    (tmp_path / "sitecustomize.py").write_text(HOUR_AHEAD)
    env = {
        0: {"NCCL_ALGO": "Tree"},
        1: {"PYTHONDONTWRITEBYTECODE": "1"},
        2: {"PYTHONPATH": str(tmp_path)},
    }
    said = hosts.torchrun("-m", "ddpdoctor", "env", "--format", "json", "--deadline", "100", env=env)
    found = culprits(said[0])
    assert {code: found.get(code) for code in ("DDP102", "DDP113", "DDP118", "DDP122")} == {
        "DDP102": [1],
        "DDP113": [2],
        "DDP118": [0],
        "DDP122": [2],
    }, said[0].stdout
    (clock,) = [each for each in said[0].report["findings"] if each["code"] == "DDP122"]
    assert clock["hosts"] == ["node2"]
    assert 3590 < clock["measured"]["ahead_seconds"] < 3610
    assert {"DDP101", "DDP123"}.isdisjoint(found)


@LONGER
def test_the_bench_names_a_host_with_a_link_of_100_mbit_and_no_other(hosts: Hosts) -> None:
    hosts.narrow(2)
    each = 2 if hosts.count == 3 else 1
    said = hosts.torchrun(*BENCH, nproc=each, timeout=380)
    assert culprits(said[0]) == {"DDP213": [4, 5] if each == 2 else [2]}, said[0].stdout
    assert finding(said[0])["hosts"] == ["node2"]
    assert 20 < finding(said[0])["measured"]["value"] * 8e-6 < 130


@LONGER
def test_the_bench_names_a_host_whose_processors_are_held_back_and_no_other(hosts: Hosts) -> None:
    processes = [
        hosts.start(
            number,
            *(sys.executable, "-m", "ddpdoctor", "allreduce-bench", "--sizes", "1K", "--iters", "1", "--warmup", "1"),
            *("--format", "json"),
            env={
                "RANK": str(number),
                "WORLD_SIZE": str(hosts.count),
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": "node0",
                "MASTER_PORT": str(PORT),
            },
        )
        for number in range(hosts.count)
    ]
    assert within(lambda: f":{PORT}" in hosts.on(1, "ss", "-tn", "state", "established"), seconds=150)
    with held_back(hosts, 1):
        said = [said_by(process, 200) for process in processes]
    assert culprits(said[0]) == {"DDP601": [1]}, said[0].stdout
    assert finding(said[0])["hosts"] == ["node1"]
    assert finding(said[0])["measured"]["on_cpu"] < 0.7


@RARE
def test_the_bench_on_healthy_hosts_names_nobody_and_measures_every_direction(hosts: Hosts) -> None:
    said = hosts.torchrun(*BENCH)
    assert culprits(said[0]) == {}, said[0].stdout
    assert len(said[0].report["measured"]["links"]["directions"]) == hosts.count * (hosts.count - 1)


def finding(said: Said) -> dict:
    """The first finding of a report."""
    return said.report["findings"][0]


@contextmanager
def held_back(hosts: Hosts, number: int) -> Iterator[None]:
    """Every process of a host runs for 10 of 210 ms, as under a quota: far less than it gets on the busiest machine."""
    over = threading.Event()

    def hold() -> None:
        pids: list[int] = []
        while not over.is_set():
            _send(pids, signal.SIGSTOP)
            stopped = time.monotonic()
            now = hosts.pids(number)
            _send([pid for pid in now if pid not in pids], signal.SIGSTOP)
            pids = now
            time.sleep(max(0.0, stopped + 0.2 - time.monotonic()))
            _send(pids, signal.SIGCONT)
            time.sleep(0.01)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _send(pids: Sequence[int], what: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, what)

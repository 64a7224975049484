"""Many ranks of one launch of `ddpdoctor env`, forked from a process that has imported everything: 4,096 of them fit on a laptop.

Each speaks the real protocol, `probes/env_gather.py`, with facts that differ a little by rank and by host. Rank 0 is not among
them: it is a real `ddpdoctor env`, or whatever a test puts there.

    python -m tests.simulated_launch '{"world_size": 64, "per_host": 8, ...}'

prints a line once all ranks are forked, lets them go at the first line on stdin, prints the number of those that
have not left once all have or stdin is closed, ends them, and prints the processor seconds that they had.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib.util
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

from ddpdoctor.evidence.gpus import Gpu, Gpus
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.limits import Limits
from ddpdoctor.evidence.network import Network
from ddpdoctor.host import collect_all
from ddpdoctor.host.host_access import HostAccess
from ddpdoctor.transport import store as store_module
from ddpdoctor.transport.facts import encoded_parts, parts_of
from ddpdoctor.transport.host_relay import Relay, RelayMember

PROBES = Path(__file__).parents[1] / "probes"
GPUS_PER_HOST = 8
PATIENCE_SECONDS = 600.0
POLL_SECONDS = 0.1
FOUND_SECONDS = 0.5  # until the other ranks of a host have found its leader

TRACE_STEPS = 60
_PLAYED = threading.local()  # the host that a thread is on


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLaunch:
    """Which ranks there are, and what becomes of some of them."""

    world_size: int
    """All ranks, rank 0 included."""
    per_host: int
    """Ranks on each host, in order."""
    port: int
    """MASTER_PORT, on the loopback interface."""
    deadline_seconds: float
    """How long each waits for the others."""
    absent: Sequence[int] = ()
    """Ranks that are never started."""
    few_files: Sequence[int] = ()
    """Ranks with a limit of 256 open files, for a verdict on their hosts."""
    dying_leaders: Sequence[int] = ()
    """Hosts whose first leader is killed once the others have found it."""
    lying_leaders: Sequence[int] = ()
    """Hosts whose leader sends rank 0 something that is no message, and nothing of the others."""
    as_threads: bool = False
    """Whether the ranks of a host are threads of one process, which lets thousands fit."""
    hosts_per_process: int = 1
    """With `as_threads`: hosts that one process plays."""
    traces: bool = False
    """Whether they hand in the files of `verify-sync` (`probes/file_gather.py`) and not what `env` found."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables that every rank has beside its launcher's."""

    def host_of(self, rank: int) -> str:
        """The name of the rank's host."""
        return f"node{rank // self.per_host:04}"

    def processes(self) -> list[list[int]]:
        """The ranks that are simulated, by process."""
        ranks = sorted({*range(1, self.world_size)} - {*self.absent})
        if not self.as_threads:
            return [[rank] for rank in ranks]
        together = self.per_host * self.hosts_per_process
        return [list(ranks) for _, ranks in groupby(ranks, key=lambda rank: rank // together)]

    def environ_of(self, rank: int) -> dict[str, str]:
        """What a launcher would set for the rank."""
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_RANK": str(rank % self.per_host),
            "LOCAL_WORLD_SIZE": str(self.per_host),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port),
            **self.environ,
        }


@contextlib.contextmanager
def simulated(launch: SimulatedLaunch) -> Iterator[subprocess.Popen[str]]:
    """All ranks but 0, forked and waiting; write a line to the process's stdin, and they begin."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.simulated_launch", json.dumps(asdict(launch))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=PROBES.parent,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
            yield process
        finally:
            assert process.stdin is not None
            assert process.stdout is not None
            if not process.stdin.closed:
                process.stdin.close()
            process.stdout.read()


def main(spec: str) -> None:
    """Fork the ranks, let them go, and end what is left of them when stdin is closed."""
    launch = SimulatedLaunch(**json.loads(spec))
    gather = _gather("file_gather" if launch.traces else "env_gather")
    importlib.import_module("ddpdoctor.transport.rank_0")  # what each host's leader needs
    facts = _shared_facts(launch)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="ddpdoctor-simulated-") as folder:
        waits, goes = os.pipe()
        gc.collect()
        gc.freeze()
        children = []
        for together in launch.processes():
            child = os.fork()
            if child == 0:
                os.close(goes)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # torch warns there of every client without a name
                os.read(waits, 1)
                with ThreadPoolExecutor(len(together)) as pool:
                    codes = [*pool.map(lambda rank: _rank(gather, launch, facts, Path(folder), rank), together)]
                os._exit(max(codes))
            children.append(child)
        os.close(waits)
        try:
            print("ready", flush=True)
            sys.stdin.readline()
            os.close(goes)
            print(_left(children), flush=True)
            sys.stdin.read()
        finally:
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            for child in children:
                os.waitpid(child, 0)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{used.ru_utime + used.ru_stime:.1f}", flush=True)


def _left(children: list[int]) -> int:
    """Wait until all have left; after `PATIENCE_SECONDS`, or when stdin is closed, the number of those that have not."""
    end = time.monotonic() + PATIENCE_SECONDS
    while children and time.monotonic() < end and not select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
        children[:] = [child for child in children if os.waitpid(child, os.WNOHANG) == (0, 0)]
    return len(children)


def _gather(name: str) -> ModuleType:
    sys.path.insert(0, str(PROBES))
    spec = importlib.util.spec_from_file_location(name, PROBES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _shared_facts(launch: SimulatedLaunch) -> list[Any]:
    return list(collect_all.collect(HostAccess(environ=launch.environ_of(1), by_hand=False)).facts)


def facts_of(launch: SimulatedLaunch, shared: Sequence[Any], rank: int) -> bytes:
    """The facts of one rank as `ddpdoctor env` hands them to its probe: most are those of every other rank."""
    host, number = launch.host_of(rank), rank // launch.per_host
    own = Launch.from_environ(launch.environ_of(rank))
    gpus = Gpus(
        driver="580.65.06",
        cuda_driver="13.0",
        gpus=tuple(
            Gpu(
                index=index,
                name="NVIDIA H200",
                uuid=f"GPU-{number:08x}-{index:04x}",
                pci_bus_id=f"0000:{index:02x}:00.0",
                memory_bytes=143 << 30,
                memory_used_bytes=600 << 20,
                clock_reasons=0,
                temperature_celsius=31 + index,
                nvlinks=(True,) * 18,
                persistence=True,
            )
            for index in range(GPUS_PER_HOST)
        ),
    )
    facts = {type(fact): fact for fact in shared}
    facts |= {Launch: own, Gpus: gpus, Network: replace(facts[Network], hostname=host)}
    if rank in launch.few_files:
        facts[Limits] = replace(facts[Limits], open_files=256)
    return encoded_parts(parts_of([*facts.values()], (), ()))


def trace_of(rank: int) -> bytes:
    """215 KB that look to the transport like a trace of 60 steps: the tables are those of every rank, the steps its own."""
    lines = []
    for step in range(TRACE_STEPS):
        tables = hashlib.blake2b(b"%d" % step).hexdigest() * 12
        own = hashlib.blake2b(b"%d of %d" % (step, rank)).hexdigest() * 16
        lines += [b'["Table", "%b"]\n' % tables.encode(), b'["Step", "%b"]\n' % own.encode()]
    return b"".join(lines)


def _rank(gather: ModuleType, launch: SimulatedLaunch, facts: Sequence[Any], folder: Path, rank: int) -> int:
    """One rank, in its own process, from its first message to the last; returns its exit code."""
    host = _PLAYED.host = launch.host_of(rank)
    socket.gethostname = lambda: _PLAYED.host
    gather.clock_identity = lambda: f"boot-{_PLAYED.host}"
    own = folder / str(rank)
    own.mkdir()
    if launch.traces:
        (own / "1.sync.jsonl").write_bytes(trace_of(rank))
    else:
        (own / "facts").write_bytes(facts_of(launch, facts, rank))
    if rank // launch.per_host in launch.dying_leaders:
        gather.leader = partial(_dies_once, gather.leader, folder / f"{host}-died")
    if rank // launch.per_host in launch.lying_leaders:
        gather.leader = partial(_lies, gather)
    arguments = [
        "--rank", str(rank), "--world-size", str(launch.world_size), "--host", "127.0.0.1",
        "--port", str(launch.port), "--deadline", str(launch.deadline_seconds),
        *(
            ("--folder", str(own), "--gathered", str(own / "gathered"), "--reported", str(own / "reported"))
            if launch.traces
            else ("--facts", str(own / "facts"), "--out", str(own / "gathered"))
        ),
    ]  # fmt: skip
    return int(gather.main(arguments))


def _dies_once(leader: Callable[..., Any], died: Path, options: Namespace) -> Callable[..., None]:
    def lead(relay: Relay, member: RelayMember) -> None:
        try:
            died.touch(exist_ok=False)
        except FileExistsError:
            leader(options)(relay, member)
        else:
            time.sleep(FOUND_SECONDS)
            os.kill(os.getpid(), signal.SIGKILL)

    return lead


def _lies(gather: ModuleType, options: Namespace) -> Callable[..., None]:
    def lead(_relay: Relay, _member: RelayMember) -> None:
        store = gather.connect(options)
        store_module.put(store, f"bundle/{store.add('bundles', 1)}", b"9\nno bundle")
        time.sleep(PATIENCE_SECONDS)

    return lead


if __name__ == "__main__":
    main(sys.argv[1])

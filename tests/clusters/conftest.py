"""A real Slurm on this machine: munged, slurmctld and four slurmd, started for the tests and taken down after them."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from ddpdoctor.launch.guarded_process import end, start_guarded
from tests.free_port import free_port
from tests.waiting import within

ROOT = Path(__file__).parents[2]
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo")
NODES = 4
START_SECONDS = 200.0
CONFIGURATION = """
    ClusterName=test
    SlurmctldHost={host}(127.0.0.1)
    SlurmUser=root
    AuthType=auth/munge
    AuthInfo=socket={folder}/munge/socket
    SlurmctldPort={controller_port}
    SlurmctldPidFile={folder}/slurmctld.pid
    SlurmdPidFile={folder}/%n.pid
    StateSaveLocation={folder}/state
    SlurmdSpoolDir={folder}/spool-%n
    SlurmctldLogFile={folder}/slurmctld.log
    SlurmdLogFile={folder}/%n.log
    ProctrackType=proctrack/pgid
    TaskPlugin=task/none
    SwitchType=switch/none
    MpiDefault=none
    ReturnToService=2
    SelectType=select/cons_tres
    SelectTypeParameters=CR_Core
    SlurmdParameters=config_overrides
    JobAcctGatherType=jobacct_gather/none
    AccountingStorageType=accounting_storage/none
    {nodes}
    PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """A running cluster: `run` is a command with its configuration, and our own programs first on PATH."""

    env: dict[str, str]

    def run(
        self, *command: str, seconds: float = 500, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env={**self.env, **env}, capture_output=True, text=True, timeout=seconds, check=False, cwd=cwd
        )


@pytest.fixture(scope="package")
def slurm() -> Iterator[Slurm]:
    if os.geteuid() != 0:
        pytest.skip("a cluster of our own needs root")
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        pytest.skip(f"{', '.join(missing)} not installed: apt-get install slurm-wlm munge")
    folder = Path(f"/run/slurm-test-{os.getpid()}")
    daemons: list[subprocess.Popen[str]] = []
    env: dict[str, str] = {}
    try:
        env = configure(folder)
        daemons.append(munge(folder))
        daemons.append(start_guarded(["slurmctld", "-D", "-c"], env=env))
        daemons += [start_guarded(["slurmd", "-D", "-N", f"n{node}"], env=env) for node in range(1, NODES + 1)]
        wait_until_idle(env, folder)
        yield Slurm(env)
    finally:
        take_down(daemons, env)
        shutil.rmtree(folder, ignore_errors=True)


def configure(folder: Path) -> dict[str, str]:
    """Write the configuration; returns the environment in which Slurm's commands use it."""
    folder.mkdir(mode=0o755)
    (folder / "state").mkdir()
    ports = free_ports(NODES + 1)
    host = socket.gethostname().partition(".")[0]
    for node in range(1, NODES + 1):
        (folder / f"spool-n{node}").mkdir()
    nodes = "\n    ".join(
        f"NodeName=n{node} NodeHostname={host} NodeAddr={own_address()} Port={ports[node]} CPUs=4 RealMemory=1000"
        for node in range(1, NODES + 1)
    )
    text = CONFIGURATION.format(folder=folder, host=host, controller_port=ports[0], nodes=nodes)
    (folder / "slurm.conf").write_text(textwrap.dedent(text))
    ours = str(Path(sys.executable).parent)
    return {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{ours}:{os.environ['PATH']}"}


def own_address() -> str:
    """An address of this machine that is not loopback, as nodes of a cluster have; loopback if there is none."""
    addresses = [
        address.address
        for each in psutil.net_if_addrs().values()
        for address in each
        if address.family is socket.AF_INET and not address.address.startswith("127.")
    ]
    return addresses[0] if addresses else "127.0.0.1"


def munge(folder: Path) -> subprocess.Popen[str]:
    place = folder / "munge"
    place.mkdir(mode=0o755)
    (place / "key").write_bytes(os.urandom(1024))
    (place / "key").chmod(0o400)
    files = [
        f"--{name}={place / file}"
        for name, file in (
            ("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"),
        )
    ]  # fmt: skip
    daemon = start_guarded(["munged", "--foreground", "--force", *files])
    assert within(lambda: (place / "socket").exists(), seconds=START_SECONDS), "munged has no socket"
    return daemon


def wait_until_idle(env: dict[str, str], folder: Path) -> None:
    def idle() -> bool:
        said = subprocess.run(
            ["sinfo", "--noheader", "--format", "%T"], env=env, capture_output=True, text=True, timeout=30, check=False
        )
        return said.stdout.split() == ["idle"]

    came_up = within(idle, seconds=START_SECONDS)
    assert came_up, f"the nodes did not come up: {[log.read_text()[-500:] for log in folder.glob('*.log')]}"


def free_ports(number: int) -> list[int]:
    ports: set[int] = set()
    while len(ports) < number:
        ports.add(free_port())
    return sorted(ports)


def take_down(daemons: list[subprocess.Popen[str]], env: dict[str, str]) -> None:
    """Cancel what still runs, then end the daemons, the last started first, with all that they started.

    Their subreaper does the second even where this process is killed.
    """
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(["scancel", "--me"], env=env, capture_output=True, timeout=30, check=False)
    for daemon in reversed(daemons):
        end(daemon)

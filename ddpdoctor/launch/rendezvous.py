"""Where the ranks of a launch meet: the address and port of the store, where the launcher named none."""

from __future__ import annotations

import re
import socket
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from ddpdoctor.errors import UndecidedError, UsageError
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.launch.attendance import WaitingProcess
from ddpdoctor.launch.guarded_process import run
from ddpdoctor.whole_numbers import whole_number

DEFAULT_PORT = 29500  # torchrun's
FIRST_PORT = 20000
PORTS = 10000  # up to 29999: below Linux's ephemeral range, which begins at 32768
SCONTROL_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """The address of the store."""

    host: str
    """The name or address of the host of rank 0."""
    port: int
    """The TCP port of the store."""
    hosted: bool
    """Whether the launcher's agent serves the store already."""

    def arguments(self, launch: Launch, deadline_seconds: float) -> list[str]:
        """What a probe that meets there is told; `probes/rendezvous_args.py` reads it."""
        return [
            "--rank", str(launch.rank), "--world-size", str(launch.world_size),
            "--host", self.host, "--port", str(self.port), "--deadline", str(deadline_seconds),
            *(["--hosted"] if self.hosted else []),
        ]  # fmt: skip


def meeting_point(environ: Mapping[str, str], launch: Launch) -> Meeting:
    """MASTER_ADDR and MASTER_PORT, or what every rank derives alike from Slurm's or Open MPI's variables.

    Raises:
        UndecidedError: ranks on several hosts, and nothing says which host they could meet on.
    """
    host = launch.master_addr or _first_slurm_node(environ) or _own_host(launch)
    if host is None:
        raise UndecidedError(
            f"MASTER_ADDR is not set, and {launch.launcher} does not say which host rank 0 of {launch.world_size} is on",
            hint=f"set it for every rank: `{_setting(launch)}`",
        )
    return Meeting(
        host=host,
        port=launch.master_port or _port(environ),
        hosted=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
    )


def waiting_of(launch: Launch, meeting: Meeting) -> WaitingProcess:
    """The rank of `launch`, which waits for the others at `meeting`."""
    return WaitingProcess(
        number=launch.rank,
        size=launch.world_size,
        where=f"{meeting.host}:{meeting.port}",
        speaks=launch.rank == 0 or launch.by_hand,
    )


def master_port_of(environ: Mapping[str, str]) -> int:
    """MASTER_PORT, or where it is not set the port that torchrun takes.

    Raises:
        UsageError: it is no port.
    """
    text = environ.get("MASTER_PORT") or str(DEFAULT_PORT)
    port = whole_number(text)
    if not port or port > 65535:
        raise UsageError(
            f"MASTER_PORT={text!r} is not a port", hint=f"one from 1 to 65535: `export MASTER_PORT={DEFAULT_PORT}`"
        )
    return port


def rank_variables(environ: Mapping[str, str], launch: Launch) -> dict[str, str]:
    """What `init_process_group` reads and the launcher did not set, so that a program of ours joins under any launcher.

    Raises:
        UndecidedError: nothing says where the ranks could meet.
    """
    meeting = meeting_point(environ, launch)
    wanted = {
        "RANK": str(launch.rank),
        "WORLD_SIZE": str(launch.world_size),
        "LOCAL_RANK": str(launch.local_rank or 0),
        "MASTER_ADDR": meeting.host,
        "MASTER_PORT": str(meeting.port),
    }
    return {name: value for name, value in wanted.items() if name not in environ}


def first_node(nodelist: str) -> str:
    """The first name in Slurm's notation: `gpu01` for `gpu[01-04,07]`, `a` for `a,b`."""
    bracket = re.match(r"^([^,\[]*)\[(\w+)\b[^\]]*\]([^,]*)", nodelist)
    return "".join(bracket.groups()) if bracket else nodelist.partition(",")[0]


def _first_slurm_node(environ: Mapping[str, str]) -> str | None:
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST")
    return _address(first_node(nodes)) if nodes else None


def _address(node: str) -> str:
    """The node's name where it resolves, else the address that Slurm itself reaches it by."""
    try:
        socket.getaddrinfo(node, None)
    except socket.gaierror:
        shown = run(["scontrol", "show", "node", "--oneliner", node], deadline_seconds=SCONTROL_SECONDS)
        known = re.search(r"\bNodeAddr=(\S+)", shown.stdout)
        return known[1] if known else node
    return node


def _own_host(launch: Launch) -> str | None:
    """The loopback address where all ranks are on one host."""
    return "127.0.0.1" if launch.local_world_size == launch.world_size else None


def _setting(launch: Launch) -> str:
    variables = {"MASTER_ADDR": "HOST", "MASTER_PORT": "29500"}
    if launch.launcher == "torch":
        return "export " + " ".join(f"{name}={value}" for name, value in variables.items())
    return "mpirun " + " ".join(f"-x {name}={value}" for name, value in variables.items()) + " ..."


def _port(environ: Mapping[str, str]) -> int:
    """A port that all ranks of one job step derive alike, and neighbours on the host do not."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID")
    identity = ".".join(environ.get(name, "") for name in names)
    return FIRST_PORT + zlib.crc32(identity.encode()) % PORTS

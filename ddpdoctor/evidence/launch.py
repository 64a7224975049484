"""Who started this process: torchrun, Slurm, Open MPI or another, in one type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one launcher's variables say; None where they say nothing."""

    launcher: str
    rank: int | None
    world_size: int | None
    local_rank: int | None
    local_world_size: int | None
    node_rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The place of this process in a job. `claims` holds every launcher's own words, the one that is believed first.

    `agents` is how many agents torchrun counts, `agent_rank` and `agent_world_size` what the agent gave to this worker, which
    the job may have overwritten since. `tasks` is how many processes srun or mpirun started, `tasks_by` which of them.
    `by_hand`: no launcher, an interactive shell started this process.
    """

    launcher: str
    rank: int
    world_size: int
    local_rank: int | None = None
    local_world_size: int | None = None
    node_rank: int | None = None
    master_addr: str | None = None
    master_port: int | None = None
    run_id: str | None = None
    claims: tuple[Claim, ...] = ()
    agents: int | None = None
    agent_rank: int | None = None
    agent_world_size: int | None = None
    tasks: int | None = None
    tasks_by: str | None = None
    by_hand: bool = False

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Launch | None:
        """The launch that `environ` describes, or None where no launcher started this process.

        torch's own variables (RANK, WORLD_SIZE) win over Slurm's and MPI's: `init_process_group` reads them.
        """
        claims = tuple(claim for claim in (_claim(environ, *names) for names in _LAUNCHERS) if claim is not None)
        complete = next((claim for claim in claims if claim.rank is not None and claim.world_size is not None), None)
        if complete is None or complete.rank is None or complete.world_size is None:
            return None
        tasks_by, tasks = _tasks(environ)
        return cls(
            launcher=complete.launcher,
            rank=complete.rank,
            world_size=complete.world_size,
            local_rank=complete.local_rank,
            local_world_size=complete.local_world_size,
            node_rank=complete.node_rank,
            master_addr=environ.get("MASTER_ADDR"),
            master_port=_number(environ.get("MASTER_PORT")),
            run_id=environ.get("TORCHELASTIC_RUN_ID") or environ.get("SLURM_JOB_ID"),
            claims=claims,
            agents=_number(environ.get("GROUP_WORLD_SIZE")),
            agent_rank=_number(environ.get("ROLE_RANK")),
            agent_world_size=_number(environ.get("ROLE_WORLD_SIZE")),
            tasks=tasks,
            tasks_by=tasks_by,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One process that came to the meeting of all ranks, and the rank and world size that its launcher told it."""

    rank: int
    world_size: int
    host: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSet:
    """Who came within `deadline_seconds`, in order of arrival; `world_size` is what the speaking rank 0 expects."""

    world_size: int
    deadline_seconds: float
    arrivals: tuple[Arrival, ...]


KINDS = (Launch, RankSet)

# launcher, the variable that proves it, then rank, world size, local rank, local world size, node rank; "" where none tells
_LAUNCHERS = (
    ("torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
    ("torch", "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"),
    ("Slurm", "SLURM_PROCID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_NODEID"),
    (
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "",  # no number of the node: OMPI_COMM_WORLD_NODE_RANK counts processes on it
    ),
    ("PMI", "PMI_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ""),
)


def _claim(environ: Mapping[str, str], launcher: str, proof: str, *names: str) -> Claim | None:
    if proof not in environ:
        return None
    rank, world_size, local_rank, local_world_size, node_rank = (_number(environ.get(name)) for name in names)
    return Claim(
        launcher=launcher,
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=local_world_size,
        node_rank=node_rank,
    )


def _tasks(environ: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Who started how many processes side by side. A batch script and an interactive shell of Slurm are no such step."""
    for launcher, name in (
        ("srun", "SLURM_STEP_NUM_TASKS"), ("mpirun", "OMPI_COMM_WORLD_SIZE"), ("mpirun", "PMI_SIZE"),
    ):  # fmt: skip
        number = _number(environ.get(name))
        if number is not None:
            return launcher, number
    return None, None


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None

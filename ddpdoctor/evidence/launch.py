"""Who started this process: torchrun, Slurm, Open MPI or another, in one type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ddpdoctor.evidence.bounds import MOST_RANKS, need_ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the variables of one launcher say. None stands for "they do not say"."""

    launcher: str
    """Such as `torchrun`."""
    rank: int | None
    """The global rank."""
    world_size: int | None
    """The number of ranks."""
    local_rank: int | None
    """The rank on its node."""
    local_world_size: int | None
    """The number of ranks on its node."""
    node_rank: int | None
    """The number of the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The place of this process in a job."""

    launcher: str
    """The launcher whose variables are believed."""
    rank: int
    """The global rank."""
    world_size: int
    """The number of ranks."""
    local_rank: int | None = None
    """The rank on its node."""
    local_world_size: int | None = None
    """The number of ranks on its node."""
    node_rank: int | None = None
    """The number of the node."""
    master_addr: str | None = None
    """The variable MASTER_ADDR; None where it is not set."""
    master_port: int | None = None
    """MASTER_PORT, None where it is no number."""
    run_id: str | None = None
    """The launcher's identity of the run."""
    claims: tuple[Claim, ...] = ()
    """What the variables of every launcher say, the one that is believed first."""
    agents: int | None = None
    """How many agents torchrun counts: one per node."""
    agent_rank: int | None = None
    """The rank that torchrun's agent gave to this worker; the job may have overwritten RANK since."""
    agent_world_size: int | None = None
    """The world size that torchrun's agent gave to this worker."""
    tasks: int | None = None
    """How many processes srun or mpirun started."""
    tasks_by: str | None = None
    """`srun` or `mpirun`."""
    by_hand: bool = False
    """Whether an interactive shell started this process, and no launcher."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Launch | None:
        """The launch that `environ` describes, or None where no launcher started this process.

        A rank or world size beyond `MOST_RANKS` describes none. torch's own variables (RANK, WORLD_SIZE) win over Slurm's and
        MPI's: `init_process_group` reads them.
        """
        claims = tuple(claim for claim in (_claim(environ, *names) for names in _LAUNCHERS) if claim is not None)
        complete = next((claim for claim in claims if claim.rank is not None and claim.world_size is not None), None)
        if complete is None or complete.rank is None or complete.world_size is None:
            return None
        if max(abs(complete.rank), abs(complete.world_size)) > MOST_RANKS:
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
    """One process that came to the meeting of all ranks."""

    rank: int
    """The rank that its launcher gave it."""
    world_size: int
    """The world size that its launcher gave it."""
    host: str
    """The name of its host."""
    pid: int
    """Its process id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSet:
    """The processes that came to the meeting of all ranks."""

    world_size: int
    """The number of ranks that rank 0 expects."""
    deadline_seconds: float
    """How long it waited for them."""
    arrivals: tuple[Arrival, ...]
    """Who came, in order of arrival."""

    def __post_init__(self) -> None:
        need_ranks(self.world_size, "world_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvOverwrite:
    """A line that sets an environment variable: to the text of a literal, or to an expression as it stands."""

    name: str
    """The variable; empty where the line sets variables that the source does not name."""
    value: str
    """Its new value, or the expression that gives it."""
    file: str
    """The file of the line."""
    line: int
    """The number of the line."""
    function: str
    """The function that it stands in, `<module>` outside of all."""
    conditional: bool = False
    """Whether it stands under an `if`: other ranks, or another run, may not reach it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """How far a process of a launch has come with joining the others, and where it looks for them."""

    called: bool
    """Whether it has called `init_process_group`."""
    given: str | None = None
    """The address of the rendezvous that its launcher gave it, as `HOST:PORT`; None where it gave none."""
    used: str | None = None
    """The address that its `init_process_group` uses; None where nobody saw it."""
    launchers_store: bool = False
    """Whether the launcher itself serves the store at `given`, so that no rank serves one elsewhere."""
    started: int | None = None
    """How many ranks torchrun, srun or mpirun started; None where none of them started this process itself."""
    world_size: int | None = None
    """How many ranks its `init_process_group` waits for; None where nobody saw it."""
    overwrites: tuple[EnvOverwrite, ...] = ()
    """The lines that set MASTER_ADDR and MASTER_PORT last before it joined, as its agent saw them; empty where none did."""
    rivals: tuple[int, ...] = ()
    """The other processes that join as this rank, at the same address; empty in cases of older versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvOverwrites:
    """The lines of the user's own files that overwrite what a launcher gave, as far as the files could be read."""

    each: tuple[EnvOverwrite, ...]
    """In the order of files and lines."""


KINDS = {
    Launch: "launcher variables",
    RankSet: "list of the ranks that joined",
    Joining: "rendezvous address",
    EnvOverwrites: "lines that set environment variables",
}

MOST_DIGITS = 19

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
    """The number in `text`, None where it is none or absurdly long."""
    try:
        return int(text) if text is not None and len(text) <= MOST_DIGITS else None
    except ValueError:
        return None

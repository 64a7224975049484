"""What launch scripts and manifests say: the commands that they run, the variables that they set, what they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ddpdoctor.evidence.remarks import Remark
from ddpdoctor.evidence.variables import KnownNames

Scheduler = Literal["Slurm", "PBS", "LSF", ""]
"""What runs a batch script, by the options in its comments; empty for a script that a person or another one runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """An option for a scheduler, or a variable that a script or a manifest sets."""

    name: str
    """The name; of an option the long one of Slurm, which PBS's and LSF's are translated to."""
    value: str
    """With the variables in it replaced by what the script itself set them to; what it does not determine stays as written."""
    written: str
    """As written, without quotes."""
    line: int
    """Where it stands, from 1."""
    conditional: bool = False
    """It stands behind a test, in a branch, or in a function that nothing calls."""
    in_task: bool = False
    """A shell in the task sets it: `srun bash -c 'NAME=...'`."""
    only_for_command: bool = False
    """It stands in front of one command, which alone gets it."""
    elsewhere: bool = False
    """It stands in another script, which this one runs or sources in this line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a script; `within` are the words of the srun, mpirun or ssh around the shell that runs it."""

    words: tuple[str, ...]
    """The words, with variables replaced as in `Setting.value`."""
    line: int
    """Where it begins, from 1."""
    conditional: bool = False
    """It stands behind a test, in a branch, or in a function that nothing calls."""
    in_loop: bool = False
    """It stands in a loop."""
    within: tuple[str, ...] = ()
    """The words of the command whose shell runs it, `srun -N 2`; empty for a command of the script itself."""
    variables: tuple[Setting, ...] = ()
    """The variables that it alone gets."""
    elsewhere: bool = False
    """It stands in another script, which this one runs or sources in this line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One shell script, for a scheduler or for a terminal."""

    path: str
    """As it was given."""
    scheduler: Scheduler = ""
    """The batch system that its directives are for; empty for a terminal."""
    options: tuple[Setting, ...] = ()
    """What it asks the scheduler for, in order."""
    variables: tuple[Setting, ...] = ()
    """The variables that it sets, in order."""
    commands: tuple[Command, ...] = ()
    """The commands that it runs, in order; those that only print are left out."""
    submitted: tuple[Script, ...] = ()
    """The batch scripts in it, `sbatch <<EOF` and `sbatch --wrap`; their lines are those of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of a manifest, with what its pod or service gives it."""

    line: int
    """Where it begins, from 1."""
    name: str
    """As the manifest names it."""
    role: str = ""
    """`Master` or `Worker` of a PyTorchJob, `Launcher` or `Worker` of an MPIJob, `Leader` or `Worker` of a LeaderWorkerSet.

    The task of a Volcano Job; empty elsewhere.
    """
    replicas: int | None = 1
    """How many pods have it; None where the manifest does not say it in a number."""
    profiles: tuple[str, ...] = ()
    """Of a service of docker-compose, the profiles in which alone it is started; empty where it always is."""
    gpus: int | None = None
    """The GPUs of each; None where it asks for none or does not say it in a number."""
    cpus: float | None = None
    """The limit of CPUs of each; None where there is none."""
    shared_memory_bytes: int | None = None
    """The size of its /dev/shm; None where the manifest does not limit it."""
    shared_memory_line: int | None = None
    """Where the manifest sets it; None where it does not, and the default counts."""
    restart_policy: str = ""
    """`Never`, `OnFailure`, `Always`; empty where the manifest does not say."""
    variables: tuple[Setting, ...] = ()
    """Its environment."""
    commands: tuple[Command, ...] = ()
    """The commands that it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One job of a Kubernetes manifest, all services of a docker-compose file, or a task of SkyPilot."""

    path: str
    """As it was given."""
    line: int
    """Where it begins, from 1."""
    kind: str
    """`PyTorchJob`, `TrainJob`, `MPIJob`, `Job`, `Volcano Job`, `JobSet`, `LeaderWorkerSet`, `compose`, or `SkyPilot`."""
    name: str = ""
    """As the manifest names it."""
    backoff_limit: int | None = None
    """How often the job is tried again; None where the manifest does not say."""
    nproc_per_node: str = ""
    """`nprocPerNode` of a PyTorchJob, `numProcPerNode` of a TrainJob, `slotsPerWorker` of an MPIJob; empty without it."""
    launcher_is_worker: bool = False
    """`runLauncherAsWorker` of an MPIJob: its launcher has ranks too."""
    elastic: bool = False
    """It has an elastic policy."""
    containers: tuple[Container, ...] = ()
    """The containers that run ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFile:
    """One Python program that a script names."""

    path: str
    """As the script names it."""
    text: str
    """Its content."""
    started_by: str
    """The path of that script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFiles:
    """All launch scripts and manifests that were read."""

    scripts: tuple[Script, ...] = ()
    """The scripts, in the order given."""
    manifests: tuple[Manifest, ...] = ()
    """The manifests, in the order given."""
    programs: tuple[ProgramFile, ...] = ()
    """The programs that the scripts name."""
    remarks: tuple[Remark, ...] = ()
    """Comments in them that silence findings."""
    names: KnownNames | None = None
    """What the libraries on this host know of the variables that are set; None where none has their prefixes."""


KINDS = {ScriptFiles: "launch script"}

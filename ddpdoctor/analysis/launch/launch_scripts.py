"""What scripts and manifests ask for: nodes, tasks, GPUs and variables, around the commands that start ranks in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from ddpdoctor.analysis.launch.command_options import Options, gpu_count, srun_options
from ddpdoctor.analysis.launch.env_overrides import Overwritten, overwritten
from ddpdoctor.analysis.launch.mpi_options import MPI, mpi_options
from ddpdoctor.analysis.launch.rank_starts import (
    MpiRanks,
    RankTasks,
    Torchrun,
    launcher_in,
    program_of,
    torchruns,
    trains_by_mpi,
)
from ddpdoctor.evidence.scripts import Container, Manifest, Script, ScriptFiles, Setting
from ddpdoctor.evidence.variables import KnownNames
from ddpdoctor.grouping import grouped
from ddpdoctor.model import Where
from ddpdoctor.whole_numbers import whole_number

_OF_LAUNCHERS = ("LOCAL_RANK", "RANK", "WORLD_SIZE")
_DISTRIBUTED = re.compile(r"\b(?:torch\.distributed|from torch import distributed|horovod|deepspeed)\b")


@dataclass(frozen=True, slots=True)
class LaunchedProgram:
    """A Python program that a script starts, and the variables that it overwrites."""

    path: str
    """As the script names it."""
    overwrites: tuple[Overwritten, ...]
    """Where it sets variables itself."""
    reads: frozenset[str] = frozenset()
    """Of the variables that launchers set, those whose names stand in it."""
    distributed: bool = False
    """Whether it names torch.distributed, or a package that makes ranks of processes: its processes are ranks then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchScript:
    """One script, with the programs that it starts."""

    script: Script
    """Its commands, variables and options, as they were read."""
    torchruns: tuple[Torchrun, ...]
    """The starts of torchrun in it, in order."""
    programs: tuple[LaunchedProgram, ...] = ()
    """The Python programs that it starts and that were found."""

    @property
    def path(self) -> str:
        """As it was given."""
        return self.script.path

    @property
    def batch(self) -> bool:
        """Whether a scheduler runs it."""
        return bool(self.script.scheduler)

    def option(self, name: str) -> Setting | None:
        """The last option of this name for the scheduler."""
        return next((option for option in reversed(self.script.options) if option.name == name), None)

    def always_sets(self, *names: str) -> Iterator[Setting]:
        """The last value of each variable that the script sets, whatever happens; one that adds to itself is none."""
        last = {
            setting.name: setting
            for setting in self.script.variables
            if setting.name in names and not setting.conditional and setting.name not in setting.written
        }
        yield from last.values()

    def overwritten(self, *names: str) -> Iterator[tuple[LaunchedProgram, Overwritten]]:
        """What its programs do to these variables."""
        for program in self.programs:
            for each in program.overwrites:
                if each.name in names:
                    yield program, each

    @property
    def rank_tasks(self) -> Iterator[RankTasks]:
        """The programs whose tasks are ranks, without those behind a condition: the script sets where they meet."""
        meet = any(setting.name in {"MASTER_ADDR", "MASTER_PORT"} for setting in self.script.variables)
        for command in self.script.commands if meet and not self.torchruns else ():
            around = (*command.within, *command.words)
            names = [program_of([word]) for word in around]
            if "srun" not in names or command.conditional:
                continue
            step = srun_options(around[names.index("srun") + 1 :])
            per_node = self.tasks_per_node(step)
            if per_node is not None and per_node > 1 and any(name.startswith("python") for name in names):
                yield RankTasks(command=command, step=step, per_node=per_node)

    @property
    def mpi_ranks(self) -> Iterator[MpiRanks]:
        """The Python programs that mpirun starts, without those behind a condition."""
        ranks = {PurePosixPath(program.path).name for program in self.programs if program.distributed}
        for command in self.script.commands:
            at = next((at for at, word in enumerate(command.words) if program_of([word]) in MPI), None)
            if at is None or command.conditional or launcher_in(command.words) is not None:
                continue
            behind = [program_of([word]) for word in command.words[at:]]
            started = next((name for name in behind if name.endswith(".py")), "")
            if any(name.startswith("python") for name in behind):
                options = mpi_options(command.words[at + 1 :])
                yield MpiRanks(command=command, options=options, distributed=started in ranks)

    def set_for(self, name: str, start: Torchrun | RankTasks | MpiRanks) -> Setting | None:
        """The value that a variable has for a command: set in front of it, or last before it; None where that is not certain."""
        own = [setting for setting in start.command.variables if setting.name == name]
        before = [
            setting
            for setting in self.script.variables
            if setting.name == name and not setting.only_for_command and setting.line <= start.line
        ]
        last = (own or before)[-1:]
        return last[0] if last and not last[0].conditional else None

    @property
    def shared(self) -> bool:
        """Whether other jobs may run on the same nodes: a batch script of Slurm that does not ask for them alone."""
        return self.script.scheduler == "Slurm" and self.option("exclusive") is None

    @property
    def nodes(self) -> int:
        """The most nodes that the script asks for, as far as it says so in numbers; 1 where it does not."""
        asked = self.option("nodes")
        numbers = [_upper(asked.value)] if asked else []
        for start in self.torchruns:
            numbers.append(start.options.number("nnodes"))
            numbers.append(self.step_nodes(start.step))
        numbers += [ranks.options.nodes for ranks in self.mpi_ranks]
        return max((number for number in numbers if number is not None), default=1)

    def step_nodes(self, step: Options | None) -> int | None:
        """The nodes that a step of srun asks for itself."""
        return _upper(step.values.get("nodes", "")) if step is not None else None

    @property
    def asked_nodes(self) -> int | None:
        """The nodes of the job by `--nodes` alone: 1 where it is left out; None where it is no number."""
        asked = self.option("nodes")
        return 1 if asked is None else _upper(asked.value)

    def tasks_per_node(self, step: Options) -> int | None:
        """The tasks of a step on each node; None where the script does not determine it."""
        nodes = self.step_nodes(step) or self.asked_nodes
        for values in (dict(step.values), {option.name: option.value for option in self.script.options}):
            if "ntasks-per-node" in values and "ntasks" not in step.values:
                return whole_number(values["ntasks-per-node"])
            if "ntasks" in values:
                tasks = whole_number(values["ntasks"])
                if tasks is None or nodes is None:
                    return None
                return max(1, tasks // nodes)
            if "ntasks-per-gpu" in values:
                return None
            if "nodes" in values and values is not step.values and "nodes" in step.values:
                return 1
        return 1

    def gpus_per_node(self, step: Options | None) -> tuple[int, int] | None:
        """The GPUs that a step, or the batch shell, gets on a node, and the line of the option.

        The line is 0 where srun's own options say it; None where no number does.
        """
        nodes = self.asked_nodes
        sources = [(name, value, 0) for name, value in step.values.items()] if step is not None else []
        sources += [(option.name, option.value, option.line) for option in self.script.options]
        for name, value, line in sources:
            count = gpu_count(value) if name in {"gres", "gpus-per-node", "gpus", "gpus-per-task"} else None
            if not count or (name == "gres" and not value.startswith("gpu")):
                continue
            if name in {"gres", "gpus-per-node"}:
                return count, line
            if name == "gpus" and nodes and count % nodes == 0:
                return count // nodes, line
            if name == "gpus-per-task" and step is not None and (tasks := self.tasks_per_node(step)):
                return count * tasks, line
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchScripts:
    """The scripts and manifests, in the order read."""

    scripts: tuple[LaunchScript, ...] = ()
    """Those that scripts submit come after the one that holds them."""
    manifests: tuple[Pods, ...] = ()
    """Of Kubernetes, SkyPilot and docker-compose."""
    names: KnownNames | None = None
    """The variables that torch, gloo and NCCL read; None where they were not looked up."""

    def starts(self) -> Iterator[tuple[str, Torchrun, int | None]]:
        """Every start of torchrun, with its file and the ranks that it starts on a node."""
        for script in self.scripts:
            yield from ((script.path, start, start.ranks_per_node) for start in script.torchruns)
        for pods in self.manifests:
            for container, starts in pods.torchruns:
                yield from ((pods.manifest.path, start, pods.ranks(container, start)) for start in starts)

    def settings(self) -> Iterator[tuple[str, Setting]]:
        """Every variable that a script or a container itself sets whatever happens, with the file."""
        for script in self.scripts:
            own = (each for each in script.script.variables if not each.conditional and not each.elsewhere)
            last = {setting.name: setting for setting in own}
            yield from ((script.path, setting) for setting in last.values())
        for pods in self.manifests:
            for container in pods.manifest.containers:
                yield from ((pods.manifest.path, setting) for setting in container.variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """A manifest with the starts of torchrun in its containers."""

    manifest: Manifest
    """Its containers, replicas and policies, as they were read."""
    torchruns: tuple[tuple[Container, tuple[Torchrun, ...]], ...] = ()
    """Each container with the starts in its command."""

    @property
    def unit(self) -> str:
        """What each copy of a container is called."""
        return "node" if self.manifest.kind == "SkyPilot" else "pod"

    @property
    def mpi_ranks(self) -> Iterator[tuple[Container, int, int]]:
        """Of an MPIJob the container of its workers, the ranks that each is given, and the line that says so.

        It is the last mpirun of the launcher, of a Python program that trains by its name: others prepare data, on CPUs.
        """
        workers = [each for each in self.manifest.containers if each.role == "Worker"]
        several = self.manifest.kind == "MPIJob" and not self.manifest.launcher_is_worker and len(workers) == 1
        started = [
            command
            for other in self.manifest.containers
            if other.role == "Launcher"
            for command in other.commands
            if not MPI.isdisjoint(program_of([word]) for word in command.words)
        ]
        if not several or not workers[0].replicas or not started or not trains_by_mpi(started[-1]):
            return
        options = mpi_options(started[-1].words[1:])
        spread = -(-options.processes // workers[0].replicas) if options.processes else None
        if ranks := options.per_node or spread:
            yield workers[0], ranks, started[-1].line

    def ranks(self, container: Container, start: Torchrun) -> int | None:
        """The ranks that a container starts; PyTorchJob hands `nprocPerNode` to torchrun where it has no number of its own."""
        given = self.manifest.nproc_per_node
        if "nproc-per-node" not in start.options.values and given:
            return container.gpus if given in {"gpu", "auto"} else whole_number(given)
        return start.ranks_per_node


def derive(files: ScriptFiles) -> LaunchScripts:
    """Every script and manifest, with the ranks that it starts."""
    programs = grouped(
        (
            program.started_by,
            LaunchedProgram(
                program.path,
                overwritten(program.text),
                frozenset(name for name in _OF_LAUNCHERS if name in program.text),
                _DISTRIBUTED.search(program.text) is not None,
            ),
        )
        for program in files.programs
    )
    return LaunchScripts(
        scripts=tuple(
            LaunchScript(
                script=script,
                torchruns=tuple(torchruns(script.commands)),
                programs=tuple(programs.get(script.path, ())),
            )
            for outer in files.scripts
            for script in (outer, *_submitted(outer))
        ),
        manifests=tuple(
            Pods(
                manifest=manifest,
                torchruns=tuple((each, tuple(torchruns(each.commands))) for each in manifest.containers),
            )
            for manifest in files.manifests
        ),
        names=files.names,
    )


def _submitted(script: Script) -> Iterator[Script]:
    """The batch scripts in a script, and those in them."""
    for inner in script.submitted:
        yield inner
        yield from _submitted(inner)


def place(path: str, line: int) -> Where:
    """A line of a script or a manifest."""
    return Where(rank=None, file=path, line=line, function="")


def _upper(value: str) -> int | None:
    """The most of `2-4`, or the number itself."""
    return whole_number(value.rpartition("-")[2])

"""How scripts and manifests start ranks: each torchrun with its nodes, its ranks, and the task of srun that it runs in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ddpdoctor.analysis.launch.command_options import (
    Options,
    accelerate_options,
    deepspeed_options,
    gpu_count,
    srun_options,
    torchrun_options,
)
from ddpdoctor.analysis.launch.container_options import ContainerOptions, container_options
from ddpdoctor.analysis.launch.env_overrides import Overwritten, overwritten
from ddpdoctor.analysis.launch.mpi_options import MPI, MpiOptions, mpi_options
from ddpdoctor.evidence.scripts import Command, Container, Manifest, Script, ScriptFiles, Setting
from ddpdoctor.evidence.variables import KnownNames
from ddpdoctor.model import Where
from ddpdoctor.whole_numbers import whole_number

_OF_LAUNCHERS = ("LOCAL_RANK", "RANK", "WORLD_SIZE")
_LAUNCH_MODULE = "torch.distributed.launch"
_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_DISTRIBUTED = re.compile(r"\b(?:torch\.distributed|from torch import distributed|horovod|deepspeed)\b")
_TRAINING = re.compile(r"train|tune|mnist|benchmark")
"""What the names of programs that train have in them."""
_AT_ONCE = frozenset({"pdsh", "clush", "pssh", "parallel-ssh"})
"""What runs one text on several hosts."""
_SEVERAL_HOSTS = re.compile(r"[,\[%«]|NODELIST|\$\(|`")
"""What stands in a text that names several hosts; `$NODE` alone may be one."""
_REMOTE = MPI | _AT_ONCE | {"ssh", "parallel", "jsrun", "blaunch", "lsrun", "lsgrun", "aprun", "pbsdsh", "pbs_tmrsh"}
_READERS = {
    "accelerate launch": accelerate_options,
    "deepspeed": deepspeed_options,
}
_IN_FRONT = frozenset({"srun", "singularity", "apptainer", "time", "nohup", "exec", "timeout", "numactl"}) | MPI
"""What can stand in front of `deepspeed`, which is also the name of a package and of an option."""


@dataclass(frozen=True, slots=True)
class Program:
    """A Python program that a script starts, and the variables that it overwrites."""

    path: str
    overwrites: tuple[Overwritten, ...]
    reads: frozenset[str] = frozenset()
    """Of the variables that launchers set, those whose names stand in it."""
    distributed: bool = False
    """Whether it names torch.distributed, or a package that makes ranks of processes: its processes are ranks then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Torchrun:
    """One start of torchrun, by any of its names, of `accelerate launch` or of DeepSpeed's launcher."""

    command: Command
    """The command."""
    launcher: str
    """`torchrun`, `torch.distributed.launch`, `accelerate launch` or `deepspeed`."""
    options: Options
    """Its options, under torchrun's names."""
    step: Options | None = None
    """The options of the srun that starts it in its tasks; None where none does."""
    remote: bool = False
    """Something else starts it on other hosts: mpirun, ssh, a loop over hosts, or DeepSpeed's launcher by itself."""
    at_once: str = ""
    """The command that starts it on several hosts at once, with the same words: pdsh, mpirun; empty where none does."""
    container: ContainerOptions | None = None
    """The container that the script runs it in, `docker run ...`; None where there is none."""

    @property
    def line(self) -> int:
        """Where the command begins."""
        return self.command.line

    @property
    def always(self) -> bool:
        """Whether no condition guards it."""
        return not self.command.conditional

    @property
    def in_task(self) -> bool:
        """Whether a shell in the task replaces the variables in its options, and not that of the script."""
        return bool(self.command.within)

    @property
    def ranks_per_node(self) -> int | None:
        """The ranks that it starts; None where the script does not say it in a number."""
        if self.launcher == "accelerate launch":
            processes = self.options.number("processes")
            nodes = self.options.number("nnodes") if "nnodes" in self.options.values else 1
            return processes // nodes if processes and nodes else None
        if "nproc-per-node" not in self.options.values:
            if self.launcher == "deepspeed":
                return None  # one for each GPU that it finds
            return 1 if self.options.complete else None
        return self.options.number("nproc-per-node")

    @property
    def alone(self) -> bool:
        """Whether this is DeepSpeed's launcher, told of no other node: each one that runs is a job of its own."""
        known = {"hostfile", "no-ssh", "node-rank", "nnodes", "master-addr", "include"}
        return self.launcher == "deepspeed" and self.options.complete and known.isdisjoint(self.options.values)

    @property
    def static(self) -> bool:
        """Whether its nodes are numbered by `--node-rank`: the other rendezvous number them by themselves."""
        if self.launcher == "deepspeed":
            return "no-ssh" in self.options.values
        backend = self.options.values.get("rdzv-backend", "static" if self.options.complete else "")
        return backend == "static" and "standalone" not in self.options.values


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTasks:
    """A Python program that srun starts in several tasks per node: each task is a rank."""

    command: Command
    """The command."""
    step: Options
    """The options of srun."""
    per_node: int
    """The tasks on each node, 2 or more."""

    @property
    def line(self) -> int:
        """Where the command begins."""
        return self.command.line


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiRanks:
    """A Python program that mpirun starts: each process is a rank, where the program makes a process group."""

    command: Command
    """The command."""
    options: MpiOptions
    """What mpirun is told."""
    distributed: bool = False
    """Whether the program was read and does so; others may prepare data, on CPUs."""

    @property
    def line(self) -> int:
        """Where the command begins."""
        return self.command.line


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchScript:
    """One script, with the programs that it starts."""

    script: Script
    torchruns: tuple[Torchrun, ...]
    programs: tuple[Program, ...] = ()

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

    def overwritten(self, *names: str) -> Iterator[tuple[Program, Overwritten]]:
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
            if at is None or command.conditional or _launcher(command.words) is not None:
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
    manifests: tuple[Pods, ...] = ()
    names: KnownNames | None = None

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
    torchruns: tuple[tuple[Container, tuple[Torchrun, ...]], ...] = field(default=())

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
        if not several or not workers[0].replicas or not started or not _trains_by_mpi(started[-1]):
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
    programs: dict[str, list[Program]] = {}
    for program in files.programs:
        programs.setdefault(program.started_by, []).append(
            Program(
                program.path,
                overwritten(program.text),
                frozenset(name for name in _OF_LAUNCHERS if name in program.text),
                _DISTRIBUTED.search(program.text) is not None,
            )
        )
    return LaunchScripts(
        scripts=tuple(
            LaunchScript(
                script=script,
                torchruns=tuple(_torchruns(script.commands)),
                programs=tuple(programs.get(script.path, ())),
            )
            for outer in files.scripts
            for script in (outer, *_submitted(outer))
        ),
        manifests=tuple(
            Pods(
                manifest=manifest,
                torchruns=tuple((each, tuple(_torchruns(each.commands))) for each in manifest.containers),
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


def program_of(words: Sequence[str]) -> str:
    """The name of the program that a command runs, without its folder."""
    return words[0].rpartition("/")[2] if words else ""


def _torchruns(commands: Sequence[Command]) -> Iterator[Torchrun]:
    for command in commands:
        found = _launcher(command.words)
        if found is None:
            continue
        launcher, at = found
        options = _READERS.get(launcher, torchrun_options)(command.words[at:])
        around = (*command.within, *command.words[:at])
        names = [program_of([word]) for word in around]
        step = srun_options(around[names.index("srun") + 1 :]) if "srun" in names else None
        yield Torchrun(
            command=command,
            launcher=launcher,
            options=options,
            step=step,
            remote=step is None and (bool(_REMOTE & {*names}) or _reaches_hosts(launcher, options)),
            at_once=_at_once(around),
            container=container_options(around),
        )


def _reaches_hosts(launcher: str, options: Options) -> bool:
    """Whether DeepSpeed's launcher starts the ranks on other hosts by itself."""
    return launcher == "deepspeed" and ("hostfile" in options.values or (options.number("nnodes") or 1) > 1)


def _at_once(words: Sequence[str]) -> str:
    """What starts a command with the same words on several hosts; empty where it is one host, or not known."""
    for at, word in enumerate(words):
        name = program_of([word])
        if name in MPI:
            options = mpi_options(words[at + 1 :])
            return name if (options.nodes or 1) > 1 else ""
        if name in _AT_ONCE:
            hosts = [*_hosts_of(words[at + 1 :])]
            several = not hosts or len({*hosts}) > 1 or _SEVERAL_HOSTS.search(hosts[0]) is not None
            return name if several else ""
    return ""


def _hosts_of(words: Sequence[str]) -> Iterator[str]:
    """What pdsh, clush and pssh are told to reach: behind `-w`, `-H` or `--host`, or joined to it."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in {"-w", "-H", "--host"}:
            yield following
        elif word.startswith("--host="):
            yield word.partition("=")[2]
        elif word.startswith(("-w", "-H")):
            yield word[2:]
        elif not word.startswith("-") and " " in word:  # the text to run
            return


def _trains_by_mpi(command: Command) -> bool:
    """Whether an mpirun starts one Python program whose name says that it trains, on GPUs as far as it is told."""
    on_cpu = any(
        word.rpartition("=")[2].lower() in {"cpu", "gloo", "mpi", "--no-cuda", "--cpu"} for word in command.words
    )
    if command.conditional or command.in_loop or on_cpu or program_of(command.words) not in MPI or ":" in command.words:
        return False
    names = [program_of([word]) for word in command.words]
    program = next((name for name in names if name.endswith(".py")), "")
    return any(name.startswith("python") for name in names) and _TRAINING.search(program) is not None


def _launcher(words: Sequence[str]) -> tuple[str, int] | None:
    """The launcher in a command, and the index behind it."""
    for index, word in enumerate(words):
        name = program_of([word])
        following = words[index + 1] if index + 1 < len(words) else ""
        if name == "torchrun":
            return "torchrun", index + 1
        if word == "-m" and following in _MODULES:
            return (following if following == _LAUNCH_MODULE else "torchrun"), index + 2
        if name == "accelerate" and following == "launch":
            return "accelerate launch", index + 2
        if name == "deepspeed" and (not index or program_of(words) in _IN_FRONT) and _has_a_program(words[index + 1 :]):
            return "deepspeed", index + 1
    return None


def _has_a_program(words: Sequence[str]) -> bool:
    return any(word.endswith(".py") or word in {"--module", "-m", "--no_python"} for word in words)


def _upper(value: str) -> int | None:
    """The most of `2-4`, or the number itself."""
    return whole_number(value.rpartition("-")[2])

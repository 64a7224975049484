"""How one command starts ranks: torchrun by any of its names, tasks of srun, mpirun."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.launch.command_options import (
    Options,
    accelerate_options,
    deepspeed_options,
    srun_options,
    torchrun_options,
)
from ddpdoctor.analysis.launch.container_options import ContainerOptions, container_options
from ddpdoctor.analysis.launch.mpi_options import MPI, MpiOptions, mpi_options
from ddpdoctor.evidence.scripts import Command

_LAUNCH_MODULE = "torch.distributed.launch"
_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Torchrun:
    """One start of torchrun, by any of its names, of `accelerate launch` or of DeepSpeed's launcher."""

    command: Command
    """The command of the script that is the start, with its line."""
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
    """The srun of the script, with its line."""
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
    """The mpirun of the script, with its line."""
    options: MpiOptions
    """What mpirun is told."""
    distributed: bool = False
    """Whether the program was read and does so; others may prepare data, on CPUs."""

    @property
    def line(self) -> int:
        """Where the command begins."""
        return self.command.line


def torchruns(commands: Sequence[Command]) -> Iterator[Torchrun]:
    """Every start of torchrun, `accelerate launch` or DeepSpeed's launcher among the commands, with what stands around it."""
    for command in commands:
        found = launcher_in(command.words)
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


def launcher_in(words: Sequence[str]) -> tuple[str, int] | None:
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


def trains_by_mpi(command: Command) -> bool:
    """Whether an mpirun starts one Python program whose name says that it trains, on GPUs as far as it is told."""
    on_cpu = any(
        word.rpartition("=")[2].lower() in {"cpu", "gloo", "mpi", "--no-cuda", "--cpu"} for word in command.words
    )
    if command.conditional or command.in_loop or on_cpu or program_of(command.words) not in MPI or ":" in command.words:
        return False
    names = [program_of([word]) for word in command.words]
    program = next((name for name in names if name.endswith(".py")), "")
    return any(name.startswith("python") for name in names) and _TRAINING.search(program) is not None


def program_of(words: Sequence[str]) -> str:
    """The name of the program that a command runs, without its folder."""
    return words[0].rpartition("/")[2] if words else ""


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


def _has_a_program(words: Sequence[str]) -> bool:
    return any(word.endswith(".py") or word in {"--module", "-m", "--no_python"} for word in words)

"""`ddpdoctor init`: a launch script that is right."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output as screen
from ddpdoctor.errors import UsageError

if TYPE_CHECKING:
    from ddpdoctor.templates.launch_scripts import JobSettings


class Launcher(typer.Choice):
    """What starts the job."""

    SLURM = "slurm"
    SLURM_TASKS = "slurm-tasks"
    TORCHRUN = "torchrun"
    K8S = "k8s"
    PYTORCHJOB = "pytorchjob"


class ContainerRuntime(typer.Choice):
    """What runs the image of a job under Slurm."""

    PYXIS = "pyxis"
    APPTAINER = "apptainer"


_PYTHON = re.compile(r"python[\d.]*")
_NO_STRINGS = {"n", "no", "null", "off", "on", "true", "false", "y", "yes"}
"""Names that YAML reads as something else than a text."""
BATCH_SCRIPTS = (Launcher.SLURM, Launcher.SLURM_TASKS)
MANIFESTS = (Launcher.K8S, Launcher.PYTORCHJOB)


LauncherArgument = Annotated[
    Launcher,
    typer.Argument(metavar="LAUNCHER", help=f"Launcher of the job: {Launcher.listed()}."),
]
CommandArgument = Annotated[
    Optional[list[str]],  # noqa: UP045 - a default of None on Python 3.10
    typer.Argument(metavar="-- COMMAND...", help="The training script and its options.  [default: train.py]"),
]
NodesOption = Annotated[int, typer.Option("--nodes", min=1, max=100_000, help="Number of nodes.")]
NprocPerNodeOption = Annotated[
    int, typer.Option("--nproc-per-node", min=1, max=1024, help="Ranks per node: one per GPU.")
]
CpusOption = Annotated[int, typer.Option("--cpus", min=1, max=4096, help="CPUs per node, for its ranks.")]
CpuOption = Annotated[bool, typer.Option("--cpu", help="No GPUs: the ranks use gloo.")]
InterfaceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--interface", metavar="NAME", help="For NCCL and gloo, such as ib0.  [default: the route to MASTER_ADDR]"
    ),
]
HoursOption = Annotated[int, typer.Option("--hours", min=1, max=8760, help="Time limit of the job.")]
ImageOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--image", metavar="IMAGE", help="The container image, for k8s, pytorchjob and --container."),
]
ContainerOption = Annotated[
    Optional[ContainerRuntime],  # noqa: UP045
    typer.Option("--container", help="Under Slurm: run --image with pyxis (enroot) or apptainer."),
]
NameOption = Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the job.")]
OutputOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE instead of stdout; it must not exist."),
]


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("init", short_help="Write a correct launch script.")(init)


def init(
    launcher: LauncherArgument,
    command: CommandArgument = None,
    nodes: NodesOption = 2,
    nproc_per_node: NprocPerNodeOption = 8,
    cpus: CpusOption = 64,
    cpu: CpuOption = False,
    interface: InterfaceOption = None,
    hours: HoursOption = 24,
    image: ImageOption = None,
    container: ContainerOption = None,
    name: NameOption = "ddp",
    output: OutputOption = None,
) -> None:
    """Write a launch script that is right, with checks in place."""
    from ddpdoctor.atomic_file import write_atomically
    from ddpdoctor.templates.launch_scripts import SCRIPTS, JobSettings

    job = JobSettings(
        command=command or ["train.py"],
        nodes=nodes,
        ranks_per_node=nproc_per_node,
        cpus=cpus,
        gpus=not cpu,
        interface=interface,
        hours=hours,
        image=image or "",
        name=name,
        container=container.value if container is not None else "",
    )
    _check_job(job)
    _check_image(job, launcher)
    _refuse_what_is_no_script(command or [], launcher)
    if output is not None and output.exists():
        raise UsageError(f"{output} already exists", hint="give another --output, or remove it first")
    script = SCRIPTS[launcher.value](job)
    if output is None:
        screen.show(script)
        return
    write_atomically(output, script)
    if launcher not in MANIFESTS:
        output.chmod(0o755)


def _check_job(job: JobSettings) -> None:
    """Refuse what no launch script can hold.

    Raises:
        UsageError: the name, the number of CPUs, the interface or the command cannot be.
    """
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?", job.name) or job.name in _NO_STRINGS:
        raise UsageError(
            f"--name {job.name!r} is not a valid job name",
            hint="use small letters, digits and dashes, a letter first, such as `ddp-1`",
        )
    if job.cpus < job.ranks_per_node:
        raise UsageError(
            f"--cpus {job.cpus} is less than one CPU for each of the {job.ranks_per_node} ranks of a node",
            hint=f"give the CPUs of a node, `--cpus {8 * job.ranks_per_node}`, or fewer ranks, `--nproc-per-node {job.cpus}`",
        )
    if job.interface is not None and not re.fullmatch(r"[A-Za-z0-9][\w.:-]{0,14}", job.interface):
        raise UsageError(
            f"--interface {job.interface!r} is not the name of an interface", hint="`ip -brief addr` lists them"
        )
    if any("\n" in word for word in job.command):
        raise UsageError(
            "the command contains a line break, which a launch script cannot hold",
            hint="put the command into a script file",
        )


def _check_image(job: JobSettings, launcher: Launcher) -> None:
    """Refuse an image without what runs it, and the reverse.

    Raises:
        UsageError: --image is missing, no name of an image, or given where nothing runs it; or --container is.
    """
    if job.container and launcher not in BATCH_SCRIPTS:
        raise UsageError(
            f"--container {job.container} is for slurm and slurm-tasks",
            hint="k8s and pytorchjob run --image by themselves; around torchrun, start the script inside the container",
        )
    if job.image and launcher in BATCH_SCRIPTS and not job.container:
        raise UsageError(
            "--image is given, but not what runs it", hint="add `--container pyxis` or `--container apptainer`"
        )
    if (launcher in MANIFESTS or job.container) and not re.fullmatch(r"[\w./:@#+-]+", job.image):
        message = f"--image {job.image!r} is not an image name" if job.image else "--image is missing"
        raise UsageError(message, hint="such as `--image registry.example/team/train:1`")


def _refuse_what_is_no_script(command: Sequence[str], launcher: Launcher) -> None:
    """Refuse a command that begins with a program: the launch script starts Python, or torchrun, by itself.

    Raises:
        UsageError: the first word is an interpreter, or a bare word that is no file here, such as `torchrun`.
    """
    program = command[0] if command else ""
    name = Path(program).name
    bare = name == program and not program.startswith("-") and not Path(program).suffix and not Path(program).is_file()
    if not command or not (bare or _PYTHON.fullmatch(name)):
        return
    starts = "python" if launcher is Launcher.SLURM_TASKS else "torchrun"
    places = (at for at, word in enumerate(command) if word.endswith(".py") or word == "-m")
    script = next(
        (command[at:] for at in places if command[at + 1 : at + 2] != ["torch.distributed.run"]), ["train.py"]
    )
    raise UsageError(
        f"the command begins with {program}, and the launch script starts {starts} itself",
        hint=f"give the training script and its options alone: `-- {shlex.join(script)}`",
    )

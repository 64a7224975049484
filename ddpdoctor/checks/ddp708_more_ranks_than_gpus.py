"""DDP708: a launch starts more ranks on a node than it has GPUs there."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScript, LaunchScripts, place
from ddpdoctor.analysis.launch.rank_starts import Torchrun
from ddpdoctor.evidence.scripts import Setting
from ddpdoctor.model import Finding, Rule, Severity, Where

RULE = Rule(
    code="DDP708",
    name="more-ranks-than-gpus",
    summary="a launch starts more ranks on a node than it has GPUs there",
    severity=Severity.FAIL,
    remedy="make both numbers the same: `--nproc-per-node=gpu` starts a rank for each GPU that is visible",
    leads_to=("DDP415", "DDP401"),
)

_REMEDY_OF_MPI = "start one rank for each GPU: `-np` is the number of workers times the GPUs of each"
_HAVE = {"compose": "the service has", "SkyPilot": "each node has"}


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each torchrun with more ranks than GPUs."""
    for script in launch.scripts:
        for start in script.torchruns:
            ranks = start.ranks_per_node
            if ranks is None or not start.always or _on_cpu(start):
                continue
            for limit_text, gpus, line in _limits(script, start):
                if ranks > gpus:
                    others = [place(script.path, line)] if line and line != start.line else []
                    yield _finding(ranks, gpus, limit_text, [place(script.path, start.line), *others])
                    break
        for tasks in script.rank_tasks:
            asked = script.gpus_per_node(tasks.step)
            if asked is not None and tasks.per_node > asked[0]:
                where = dict.fromkeys((tasks.line, asked[1] or tasks.line))
                yield _finding(
                    tasks.per_node, asked[0], "the job asks for", [place(script.path, line) for line in where]
                )
        for started in script.mpi_ranks:
            visible, per_node = _shown(script.set_for("CUDA_VISIBLE_DEVICES", started)), started.options.per_node
            if started.distributed and visible is not None and per_node is not None and per_node > visible[0]:
                alone = [place(script.path, started.line)]
                yield _finding(per_node, visible[0], "CUDA_VISIBLE_DEVICES shows", alone)
    for pods in launch.manifests:
        for worker, ranks, line in pods.mpi_ranks:
            if worker.gpus and ranks > worker.gpus:
                yield _finding(
                    ranks, worker.gpus, "each worker has", [place(pods.manifest.path, line)], remedy=_REMEDY_OF_MPI
                )
        for container, starts in pods.torchruns:
            for start in starts:
                ranks, limit = pods.ranks(container, start), container.gpus
                if start.always and ranks is not None and limit and ranks > limit and not _on_cpu(start):
                    limit_text = _HAVE.get(pods.manifest.kind, "the container has")
                    yield _finding(ranks, limit, limit_text, [place(pods.manifest.path, start.line)])


def _finding(ranks: int, gpus: int, limit_text: str, where: list[Where], remedy: str | None = None) -> Finding:
    return RULE.finding(
        f"{ranks} ranks per node, and {limit_text} {gpus} {'GPU' if gpus == 1 else 'GPUs'}",
        where=where,
        remedy=remedy,
        ranks_per_node=ranks,
        gpus=gpus,
    )


def _limits(script: LaunchScript, start: Torchrun) -> Iterator[tuple[str, int, int]]:
    """What limits the GPUs of a start: the words for it, the number, the line (0 where it is the start's own)."""
    if (visible := _shown(script.set_for("CUDA_VISIBLE_DEVICES", start))) is not None:
        yield "CUDA_VISIBLE_DEVICES shows", *visible
    if start.container is not None and start.container.gpus is not None:
        yield f"{start.container.program} gives the container", start.container.gpus, 0
    if (asked := script.gpus_per_node(start.step)) is not None:
        yield "the job asks for", *asked


def _shown(visible: Setting | None) -> tuple[int, int] | None:
    """How many GPUs a value of CUDA_VISIBLE_DEVICES shows, and its line; None where it is no list of numbers."""
    devices = visible.value.split(",") if visible is not None else []
    if visible is None or not all(device.strip().isdecimal() for device in devices):
        return None
    return len(devices), visible.line


def _on_cpu(start: Torchrun) -> bool:
    """Whether the program is told to train on CPUs."""
    return any(word.rpartition("=")[2].lower() in {"gloo", "cpu", "mpi"} for word in start.options.rest)

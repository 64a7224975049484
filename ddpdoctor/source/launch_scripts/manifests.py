"""Reads Kubernetes manifests, docker-compose files and tasks of SkyPilot with PyYAML, each value with its line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from ddpdoctor.evidence.scripts import Command, Container, Manifest, Setting
from ddpdoctor.source.launch_scripts.shell import read_command
from ddpdoctor.source.launch_scripts.shell_programs import handed_over
from ddpdoctor.source.launch_scripts.yaml_nodes import below, items_of, line_of, pairs_of, string_of, whole_of
from ddpdoctor.whole_numbers import whole_number

if TYPE_CHECKING:
    from yaml.events import Event
    from yaml.nodes import Node

SUFFIXES = (".yaml", ".yml")
MOST_DEPTH = 100  # a PyTorchJob has twelve
DOCKER_DEFAULT_BYTES = 64 << 20  # the size of /dev/shm in a container that asks for none
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?)\s{0,4}([kmgtb]?)(?:i?b?)", re.IGNORECASE)
_SHELLS = ("bash", "sh", "/bin/bash", "/bin/sh")
_ROLES = ("Master", "Worker")
_TRAINS = re.compile(r"torchrun|torch\.distributed|accelerate|PyTorchJob|MPIJob|TrainJob")
_NO_GPUS = re.compile(r"tpu|trainium|inferentia|gaudi", re.IGNORECASE)
"""How the accelerators of SkyPilot that are no GPUs are called: each has a number of cores of its own."""
_OF_SKYPILOT = ("num_nodes", "resources", "file_mounts")
_TEMPLATE = re.compile(r"\{\{|\{%")


class NoManifest(Exception):  # noqa: N818 - a reason, shown where the file was named
    """The file cannot be read; the message says why."""


def may_train(text: str) -> bool:
    """Whether a file speaks of ranks at all: most YAML files are something else."""
    return _TRAINS.search(text) is not None


def read_manifests(path: str, text: str) -> list[Manifest]:
    """The jobs of a file that start ranks; none where it is another kind of YAML.

    Raises:
        NoManifest: it is no YAML, or PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise NoManifest("reading YAML needs PyYAML: `pip install pyyaml`") from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if _depth(yaml.parse(text, Loader=loader)) > MOST_DEPTH:  # composing is recursive, and in C
            raise NoManifest("it is nested too deeply")
        documents = list(yaml.compose_all(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        line = f" at line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        reason = "it is a template, not YAML" if _TEMPLATE.search(text) else "it is no YAML"
        raise NoManifest(f"{reason}{line}") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise NoManifest("it is no YAML") from None
    return [manifest for document in documents for manifest in _manifests(path, document)]


def _depth(events: Iterable[Event]) -> int:
    """How deeply a text is nested, as far as it matters."""
    depth = most = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith(("SequenceStartEvent", "MappingStartEvent"))
        depth -= name.endswith(("SequenceEndEvent", "MappingEndEvent"))
        most = max(most, depth)
        if most > MOST_DEPTH:
            break
    return most


def _manifests(path: str, root: Node | None) -> Iterator[Manifest]:
    if root is None:
        return
    kind = string_of(below(root, "kind"))
    if kind == "PyTorchJob":
        yield _pytorch_job(path, root)
    elif kind == "Job" and string_of(below(root, "apiVersion")).startswith("batch.volcano.sh"):
        yield _volcano_job(path, root)
    elif kind == "Job":
        yield _job(path, root)
    elif kind == "JobSet":
        yield _job_set(path, root)
    elif kind == "LeaderWorkerSet":
        yield _leader_worker_set(path, root)
    elif kind == "TrainJob":
        yield _train_job(path, root)
    elif kind == "MPIJob":
        yield _mpi_job(path, root)
    elif (services := below(root, "services")) is not None and not kind:
        yield _compose(path, services)
    elif (run := below(root, "run")) is not None and not kind and any(below(root, name) for name in _OF_SKYPILOT):
        yield _skypilot(path, root, run)


def _pytorch_job(path: str, root: Node) -> Manifest:
    specs = below(root, "spec", "pytorchReplicaSpecs")
    templates = [(role, below(specs, role)) for role in _ROLES]
    pods = [_template(spec, role, below(spec, "replicas"), policy=("restartPolicy",)) for role, spec in templates]
    return replace(
        _manifest(path, root, "PyTorchJob", chain(*pods)),
        backoff_limit=whole_of(below(root, "spec", "runPolicy", "backoffLimit")),
        nproc_per_node=string_of(below(root, "spec", "nprocPerNode")),
        elastic=below(root, "spec", "elasticPolicy") is not None,
    )


def _job(path: str, root: Node) -> Manifest:
    spec = below(root, "spec")
    return replace(
        _manifest(path, root, "Job", _template(spec, "", below(spec, "parallelism"))),
        backoff_limit=whole_of(below(spec, "backoffLimit")),
    )


def _volcano_job(path: str, root: Node) -> Manifest:
    tasks = items_of(below(root, "spec", "tasks"))
    pods = [_template(task, string_of(below(task, "name")), below(task, "replicas")) for task in tasks]
    return _manifest(path, root, "Volcano Job", chain(*pods))


def _job_set(path: str, root: Node) -> Manifest:
    jobs = [(each, below(each, "template", "spec")) for each in items_of(below(root, "spec", "replicatedJobs"))]
    pods = [
        _template(job, string_of(below(each, "name")), below(each, "replicas"), below(job, "parallelism"))
        for each, job in jobs
    ]
    return _manifest(path, root, "JobSet", chain(*pods))


def _leader_worker_set(path: str, root: Node) -> Manifest:
    """One group of a LeaderWorkerSet: each is a job of its own, of as many pods as its size."""
    group = below(root, "spec", "leaderWorkerTemplate")
    size = below(group, "size")
    pods = whole_of(size) if size is not None else 1
    leader, worker = below(group, "leaderTemplate", "spec"), below(group, "workerTemplate", "spec")
    workers = pods if pods is None or leader is None else pods - 1
    containers = chain(_pod(leader, "Leader", 1, ""), _pod(worker, "Worker", workers, ""))
    return _manifest(path, root, "LeaderWorkerSet", containers)


def _train_job(path: str, root: Node) -> Manifest:
    """A TrainJob of Kubeflow: one container on each of its nodes; what else its pods have stands in its runtime."""
    trainer = below(root, "spec", "trainer")
    if trainer is None:
        return _manifest(path, root, "TrainJob", ())
    nodes = below(trainer, "numNodes")
    commands, variables = _commands(below(trainer, "command"), below(trainer, "args"))
    container = Container(
        line=line_of(trainer),
        name="trainer",
        replicas=whole_of(nodes) if nodes is not None else None,
        gpus=whole_of(below(trainer, "resourcesPerNode", "limits", "nvidia.com/gpu")),
        cpus=_cpus(string_of(below(trainer, "resourcesPerNode", "limits", "cpu"))),
        variables=(*_environment(below(trainer, "env")), *variables),
        commands=commands,
    )
    return replace(
        _manifest(path, root, "TrainJob", [container]), nproc_per_node=string_of(below(trainer, "numProcPerNode"))
    )


def _mpi_job(path: str, root: Node) -> Manifest:
    specs = below(root, "spec", "mpiReplicaSpecs")
    pods = [
        _template(spec, role, below(spec, "replicas"), policy=("restartPolicy",))
        for role in ("Launcher", "Worker")
        if (spec := below(specs, role)) is not None
    ]
    return replace(
        _manifest(path, root, "MPIJob", chain(*pods)),
        nproc_per_node=string_of(below(root, "spec", "slotsPerWorker")),
        launcher_is_worker=string_of(below(root, "spec", "runLauncherAsWorker")).lower() == "true",
    )


def _skypilot(path: str, root: Node, run: Node) -> Manifest:
    """A task of SkyPilot: each of its nodes runs the same text."""
    nodes = below(root, "num_nodes")
    commands, variables = _commands(run, None)
    container = Container(
        line=line_of(run),
        name="run",
        replicas=whole_of(nodes) if nodes is not None else 1,
        gpus=_accelerators(resources) if (resources := below(root, "resources")) is not None else None,
        variables=(*_environment(below(root, "envs")), *variables),
        commands=commands,
    )
    return Manifest(
        path=path, line=line_of(root), kind="SkyPilot", name=string_of(below(root, "name")), containers=(container,)
    )


def _accelerators(resources: Node) -> int | None:
    """The GPUs of `A100:8` and of `{A100: 8}`; a name alone is one; None where they are no GPUs or there are alternatives."""
    node = below(resources, "accelerators")
    if node is None or any(below(resources, name) is not None for name in ("any_of", "ordered")):
        return None
    pairs = pairs_of(node)
    name, sign, count = string_of(node).partition(":")
    if _NO_GPUS.match(pairs[0][0] if pairs else name):
        return None
    if pairs:
        return whole_of(pairs[0][1]) if len(pairs) == 1 else None
    return whole_number(count) if sign else (1 if name else None)


def _manifest(path: str, root: Node, kind: str, containers: Iterable[Container]) -> Manifest:
    name = string_of(below(root, "metadata", "name"))
    return Manifest(path=path, line=line_of(root), kind=kind, name=name, containers=tuple(containers))


def _template(
    owner: Node | None, role: str, *counts: Node | None, policy: Sequence[str] = ("template", "spec", "restartPolicy")
) -> Iterator[Container]:
    """The containers of the pods that a template makes, as many as the product of the counts; one that is absent is 1."""
    numbers = [1 if count is None else whole_of(count) for count in counts]
    replicas = None if None in numbers else math.prod(number or 0 for number in numbers)
    yield from _pod(below(owner, "template", "spec"), role, replicas, string_of(below(owner, *policy)))


def _pod(pod: Node | None, role: str, replicas: int | None, policy: str) -> Iterator[Container]:
    if pod is None:
        return
    memory = {string_of(below(volume, "name")): volume for volume in items_of(below(pod, "volumes"))}
    shares_ipc = string_of(below(pod, "hostIPC")).lower() == "true"
    for container in items_of(below(pod, "containers")):
        size, line = _pod_shared_memory(container, memory)
        commands, variables = _commands(below(container, "command"), below(container, "args"))
        yield Container(
            line=line_of(container),
            name=string_of(below(container, "name")),
            role=role,
            replicas=replicas,
            gpus=whole_of(below(container, "resources", "limits", "nvidia.com/gpu")),
            cpus=_cpus(string_of(below(container, "resources", "limits", "cpu"))),
            shared_memory_bytes=None if shares_ipc else size,
            shared_memory_line=line,
            restart_policy=policy,
            variables=(*_environment(below(container, "env")), *variables),
            commands=commands,
        )


def _pod_shared_memory(container: Node, volumes: dict[str, Node]) -> tuple[int | None, int | None]:
    """The size and the line of what is mounted at /dev/shm: None bytes where it has no limit."""
    for mount in items_of(below(container, "volumeMounts")):
        if string_of(below(mount, "mountPath")).rstrip("/") != "/dev/shm":  # noqa: S108 - a path in a pod
            continue
        volume = volumes.get(string_of(below(mount, "name")))
        directory = below(volume, "emptyDir") if volume is not None else None
        if volume is None or directory is None:
            return None, line_of(mount)  # a host path, or a volume that is not declared here
        limit = below(directory, "sizeLimit")
        return (_bytes(string_of(limit)), line_of(limit)) if limit is not None else (None, line_of(volume))
    return DOCKER_DEFAULT_BYTES, None


def _compose(path: str, services: Node) -> Manifest:
    containers = []
    for name, service in pairs_of(services):
        size: int | None = DOCKER_DEFAULT_BYTES
        line = None
        if (given := below(service, "shm_size")) is not None:
            size, line = _bytes(string_of(given)), line_of(given)
        mounts = [string_of(item) for item in items_of(below(service, "volumes"))]
        if string_of(below(service, "ipc")) or any(":/dev/shm" in mount for mount in mounts):
            size = None
        if any("/dev/shm" in string_of(item) for item in items_of(below(service, "tmpfs"))):  # noqa: S108 - a path in a container
            size = None
        commands, variables = _commands(below(service, "entrypoint"), below(service, "command"))
        containers.append(
            Container(
                line=line_of(service),
                name=name,
                replicas=1,
                profiles=tuple(string_of(item) for item in items_of(below(service, "profiles"))),
                gpus=_compose_gpus(service),
                shared_memory_bytes=size,
                shared_memory_line=line,
                variables=(*_environment(below(service, "environment")), *variables),
                commands=commands,
            )
        )
    return Manifest(path=path, line=line_of(services), kind="compose", containers=tuple(containers))


def _compose_gpus(service: Node) -> int | None:
    for device in items_of(below(service, "deploy", "resources", "reservations", "devices")):
        if (count := below(device, "count")) is not None:
            return whole_of(count)
        if identifiers := list(items_of(below(device, "device_ids"))):
            return len(identifiers)
    return None


def _commands(first: Node | None, second: Node | None) -> tuple[tuple[Command, ...], tuple[Setting, ...]]:
    """What a container runs: its words, and where they are a shell with a text, the commands of that text."""
    nodes = [node for part in (first, second) if part is not None for node in _words(part)]
    words = [string_of(node) for node in nodes]
    if not words:
        return (), ()
    shell = words[0] in _SHELLS and len(words) > 1
    if shell and (
        flag := next((at for at, word in enumerate(words[1:], 1) if word.startswith("-") and word.endswith("c")), 0)
    ):
        text = words[flag + 1] if flag + 1 < len(words) else ""
        return read_command(text, line_of(nodes[flag + 1]) + _block(nodes[flag + 1])) if text else ((), ())
    if len(words) == 1:
        return read_command(words[0], line_of(nodes[0]) + _block(nodes[0]))
    given = tuple(
        replace(
            each,
            line=next((line_of(node) for node in nodes if string_of(node) == f"{each.name}={each.value}"), each.line),
        )
        for each in handed_over(words, line_of(nodes[0]))
    )
    command = Command(words=tuple(word.strip() for word in words), line=line_of(nodes[0]), variables=given)
    return (command,), given


def _block(node: Node) -> int:
    """The text of `|` and `>` begins in the next line."""
    return 1 if getattr(node, "style", None) in {"|", ">"} else 0


def _words(part: Node) -> list[Node]:
    from yaml.nodes import SequenceNode

    return list(part.value) if isinstance(part, SequenceNode) else [part]


def _environment(node: Node | None) -> Iterator[Setting]:
    """The variables of `env` (a list of name and value), and of `environment` (a mapping, or a list of NAME=VALUE)."""
    for item in items_of(node):
        if (name := string_of(below(item, "name"))) and (value := below(item, "value")) is not None:
            yield _setting(name, string_of(value), line_of(item))
        elif "=" in (text := string_of(item)):
            name, _, given = text.partition("=")
            yield _setting(name, given, line_of(item))
    for name, value in pairs_of(node):
        yield _setting(name, string_of(value), line_of(value))


def _setting(name: str, value: str, line: int) -> Setting:
    return Setting(name=name, value=value, written=value, line=line, in_task=True)


def _cpus(text: str) -> float | None:
    """The CPUs of `8` and of `500m`."""
    try:
        return float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    except ValueError:
        return None


def _bytes(text: str) -> int | None:
    """The bytes of `64Mi`, `8g`, `1073741824`; None where it is no size."""
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * _UNITS[match[2].lower()]) if match else None

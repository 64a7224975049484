"""The facts about a host, or about every host of a launch, as names and values: what a bug report needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ddpdoctor.evidence import Evidence, PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.evidence.host import Environment, Host, PythonInstall
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.limits import SharedMemory
from ddpdoctor.evidence.network import Infiniband, Interface, Network
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.evidence.variables import KnownNames
from ddpdoctor.grouping import grouped
from ddpdoctor.model import group_ranks

T = TypeVar("T")
GIB = 2**30
IN_COLLECT_ENV = ("torch", "cuda", "driver", "gpu", "python", "os")
RARELY_ASKED = ("torch git", "cudnn", "libcuda", "kernel", "libc", "architecture", "cpu", "variables not checked")
SHORT = ("host", "python", "torch", "backends", "gpu", "launcher")


def facts_of(evidence: Evidence) -> tuple[tuple[str, str], ...]:
    """Each fact once; where ranks differ, every value with its ranks. Variables come last."""
    rows = [("host", _values_by_rank([((), host) for host in dict.fromkeys(facts.host for facts in evidence.ranks)]))]
    rows += _rows(evidence.per_rank(Launch), launcher=_launcher)
    rows += _rows(evidence.per_rank(PythonInstall), python=lambda python: python.version)
    rows += _rows(
        evidence.per_rank(TorchBuild),
        torch=lambda torch: torch.version or ("not installed" if torch.not_installed_for else torch.import_error),
        torch_git=lambda torch: torch.git_version,
        cuda=lambda torch: torch.cuda,
        cudnn=lambda torch: str(torch.cudnn) if torch.cudnn else None,
        libcuda=lambda torch: torch.libcuda,
        nccl=_nccl,
        backends=lambda torch: ", ".join(torch.backends) or None,
    )
    rows += _rows(
        evidence.per_rank(Gpus),
        driver=lambda gpus: f"{gpus.driver} (CUDA {gpus.cuda_driver})",
        gpu=_models,
    )
    if evidence.per_rank(Gpus) is None and (reason := evidence.why_missing("Gpus")):
        rows.append(("gpu", reason.partition(" (")[0]))
    rows += _rows(
        evidence.per_rank(Host),
        os=lambda host: host.os,
        kernel=lambda host: host.kernel,
        libc=lambda host: host.libc,
        architecture=lambda host: host.architecture,
        cpu=lambda host: host.cpu_model,
        cores=lambda host: f"{host.usable_cores} usable of {host.cores}" if host.cores else None,
        memory=lambda host: f"{host.memory_bytes / GIB:.1f} GiB" if host.memory_bytes else None,
    )
    rows += _rows(evidence.per_rank(SharedMemory), shared_memory=_shared_memory)
    rows += _rows(evidence.per_rank(Network), network=_links)
    rows += _rows(evidence.per_rank(Infiniband), infiniband=_ports)
    rows += _rows(evidence.per_rank(KnownNames), variables_not_checked=_not_checked)
    return tuple(rows) + tuple(_variables(evidence.per_rank(Environment)))


def issue_facts_of(facts: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """For an issue: first what `torch.utils.collect_env` does not say, then what it says too, without what is rarely asked."""
    said_there = [row for row in facts if row[0] in IN_COLLECT_ENV]
    return (*(row for row in facts if row[0] not in {*IN_COLLECT_ENV, *RARELY_ASKED}), *said_there)


def short_facts_of(facts: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The few facts that say which machine and which torch were judged."""
    return tuple(row for row in facts if row[0] in SHORT)


def _rows(known: PerRank[T] | None, **read: Callable[[T], str | None]) -> list[tuple[str, str]]:
    rows = []
    for name, value_of in read.items():
        groups: dict[str, list[int]] = {}
        for entry in known or ():
            value = value_of(entry.value)
            if value is not None:
                groups.setdefault(value, []).append(entry.rank)
        if groups:
            rows.append((name.replace("_", " "), _values_by_rank([(ranks, value) for value, ranks in groups.items()])))
    return rows


def _variables(known: PerRank[Environment] | None) -> Iterator[tuple[str, str]]:
    own = ("RANK", "LOCAL_RANK", "ROLE_RANK", "GROUP_RANK")  # one value a rank, and `launcher` says it
    names = sorted({name for entry in known or () for name in entry.value.variables} - {*own})
    for name in names:
        groups = grouped((entry.value.variables.get(name, "(not set)"), entry.rank) for entry in known or ())
        yield name, _values_by_rank([(ranks, value) for value, ranks in groups.items()])


def _values_by_rank(groups: Sequence[tuple[Sequence[int], str]]) -> str:
    if len(groups) == 1:
        return groups[0][1]
    return "; ".join(f"{value} ({group_ranks(ranks)})" if ranks else value for ranks, value in groups)


def _launcher(launch: Launch) -> str:
    return f"{launch.launcher}, {launch.world_size} ranks"


def _nccl(torch: TorchBuild) -> str | None:
    if torch.nccl_loaded and torch.nccl_loaded != torch.nccl_compiled:
        return f"{torch.nccl_loaded} loaded, {torch.nccl_compiled} compiled against"
    return torch.nccl_loaded or torch.nccl_compiled


def _shared_memory(memory: SharedMemory) -> str:
    return f"{memory.size_bytes / GIB:.1f} GiB, {memory.free_bytes / GIB:.1f} GiB free"


def _links(network: Network) -> str | None:
    """The interfaces that may lead out of the host; in containers all are virtual."""
    up = [link for link in network.interfaces if link.up and not link.loopback]
    return _listed(f"{link.name} ({_speed(link)})" for link in [link for link in up if not link.virtual] or up)


def _speed(link: Interface) -> str:
    speed = f"{link.speed_mbit} Mbit/s" if link.speed_mbit else "unknown speed"
    return f"{speed}, MTU {link.mtu}" if link.mtu else speed


def _ports(adapters: Infiniband) -> str | None:
    return _listed(
        f"{port.device}:{port.port} ({port.link_layer}, {port.rate}, {port.state})" for port in adapters.ports
    )


def _not_checked(names: KnownNames) -> str | None:
    return _listed(f"{name} ({reason})" for name, reason in sorted(names.unjudged.items()))


def _listed(each: Iterable[str]) -> str | None:
    return ", ".join(each) or None


def _models(gpus: Gpus) -> str:
    counts: dict[str, int] = {}
    for gpu in gpus.gpus:
        memory = f" {gpu.memory_bytes / GIB:.0f} GiB" if gpu.memory_bytes else ""
        model = f"{gpu.name or 'unknown'}{memory}"
        counts[model] = counts.get(model, 0) + 1
    return ", ".join(f"{count}x {model}" for model, count in counts.items()) or "none visible"

"""What a command of mpirun says: how many processes it starts, how many of them on a node, and how many nodes that makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddpdoctor.whole_numbers import whole_number

MPI = frozenset({"mpirun", "mpiexec", "orterun", "mpiexec.hydra"})
_PROCESSES = frozenset({"-np", "--np", "-n", "--n", "-c"})
_PER_NODE = frozenset({"-N", "-npernode", "--npernode", "-ppn", "--ppn", "-perhost"})
_HOSTS = frozenset({"-H", "-host", "--host", "-hosts"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiOptions:
    """The numbers of one mpirun; None where the command does not say it in a number."""

    processes: int | None = None
    """All processes."""
    per_node: int | None = None
    """The processes on each node."""
    hosts: int | None = None
    """The hosts that it names."""

    @property
    def nodes(self) -> int | None:
        """The nodes that the processes are spread over."""
        if self.processes and self.per_node:
            return max(1, self.processes // self.per_node)
        return self.hosts


def mpi_options(words: Sequence[str]) -> MpiOptions:
    """The numbers in a command; `words` begin behind mpirun."""
    values = dict(_values(words))
    slots = {part.partition(":")[2] for part in values.get("hosts", "").split(",") if part}
    (same,) = slots if len(slots) == 1 else ("",)
    per_node = values.get("per-node", same)
    named = values.get("hosts", "")
    return MpiOptions(
        processes=whole_number(values.get("processes", "")),
        per_node=whole_number(per_node),
        hosts=len(named.split(",")) if named and "$" not in named else None,
    )


def _values(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in _PROCESSES:
            yield "processes", following
        elif word in _PER_NODE:
            yield "per-node", following
        elif word in _HOSTS:
            yield "hosts", following
        elif word in {"--map-by", "-map-by"} and following.startswith("ppr:"):
            _, count, per, *_ = [*following.split(":"), "", ""]
            if per == "node":
                yield "per-node", count
        elif word.startswith("python") or word.endswith(".py"):
            return

"""One property of every GPU of every host, where NVML could tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from ddpdoctor.evidence import HostEntry, PerRank
from ddpdoctor.evidence.gpus import Gpu, Gpus
from ddpdoctor.model import SkipCheck

T = TypeVar("T")


def readable(
    gpus: PerRank[Gpus], name: str, value_of: Callable[[Gpu], T | None]
) -> Iterator[tuple[HostEntry[Gpus], Gpu, T]]:
    """Host, GPU and value for each GPU that has one; `name` is the field, for the reason why it has none.

    Raises:
        SkipCheck: no GPU could tell.
    """
    reasons = []
    found = False
    for host in gpus.hosts():
        for gpu in host.value.gpus:
            value = value_of(gpu)
            if value is None:
                reasons.append(gpu.unread.get(name, "NVML did not answer"))
            else:
                found = True
                yield host, gpu, value
    if not found:
        raise SkipCheck(f"no GPU reports {name}: {reasons[0]}" if reasons else "NVML lists no GPU")

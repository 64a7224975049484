"""What NCCL did between the GPUs of one host, with each of its transports forced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

NcclTransport: TypeAlias = Literal["P2P", "SHM", "NET"]
NcclOutcome: TypeAlias = Literal["ok", "failed", "hung", "wrong", "not-taken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLog:
    """What one rank's `NCCL_DEBUG=INFO` says."""

    rank: int | None = None
    """The rank; None where the log does not tell it."""
    version: str | None = None
    """The version of NCCL."""
    network: str | None = None
    """The network plugin that NCCL uses, such as `Socket` or `IB`."""
    interfaces: tuple[str, ...] = ()
    """The sockets and InfiniBand ports that NCCL may use, the one of its bootstrap first."""
    transports: tuple[str, ...] = ()
    """The transports of its channels."""
    warnings: tuple[str, ...] = ()
    """Its lines with `NCCL WARN`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTry:
    """One sum over all GPUs of a host, with one transport forced."""

    node: int
    """The number of the node."""
    host: str
    """The name of the host."""
    gpus: int
    """How many GPUs took part."""
    transport: NcclTransport
    """The transport that was forced."""
    outcome: NcclOutcome
    """`not-taken`: the sum is right, but NCCL used another transport than the forced one."""
    detail: str = ""
    """The error, where there was one."""
    seconds: float = 0.0
    """How long it took."""
    logs: tuple[NcclLog, ...] = ()
    """One log per GPU."""
    remarks: tuple[str, ...] = ()
    """Lines of NCCL's diagnostics and of its RAS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTries:
    """What all hosts tried."""

    tries: tuple[NcclTry, ...] = ()
    """In order of node."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """For each host that tried nothing, the reason."""


KINDS = {NcclTries: "NCCL transport tests"}

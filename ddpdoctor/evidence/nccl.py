"""What NCCL did between the GPUs of one host, with each of its transports forced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

NcclTransport: TypeAlias = Literal["P2P", "SHM", "NET"]
NcclOutcome: TypeAlias = Literal["ok", "failed", "hung", "wrong", "not-taken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLog:
    """What one rank's `NCCL_DEBUG=INFO` says. `transports` are those of its channels.

    `gdr`: whether all channels over the network use GPUDirect RDMA, None where there are none. `interfaces` are the sockets
    and InfiniBand ports that NCCL may use, the one of its bootstrap first.
    """

    rank: int | None = None
    version: str | None = None
    network: str | None = None
    interfaces: tuple[str, ...] = ()
    transports: tuple[str, ...] = ()
    gdr: bool | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTry:
    """One sum over all GPUs of a host. `not-taken`: the sum is right, but NCCL found another way than the one forced.

    `remarks` are words of NCCL's diagnostics and of its RAS.
    """

    node: int
    host: str
    gpus: int
    transport: NcclTransport
    outcome: NcclOutcome
    detail: str = ""
    seconds: float = 0.0
    logs: tuple[NcclLog, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTries:
    """What all hosts tried; `skipped` says by host why one tried nothing."""

    tries: tuple[NcclTry, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)


KINDS = (NcclTries,)

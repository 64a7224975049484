"""Hosts to plant faults in: what a healthy one knows of its network and environment."""

from __future__ import annotations

from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.network import Interface, Network

LO = Interface(name="lo", up=True, loopback=True, virtual=True, addresses=("127.0.0.1/8",))


def eth(name: str = "eth0", address: str = "10.0.0.1/24", **fields) -> Interface:
    return Interface(name=name, up=True, addresses=(address,), **fields)


def network(number: int = 1, *more: Interface, resolves_to: str | None = None, **fields) -> Network:
    """The network of host-a, -b, ...: 10.0.0.1, 10.0.0.2, ... on eth0."""
    address = f"10.0.0.{number}"
    return Network(
        hostname=f"host-{chr(ord('a') + number - 1)}",
        hostname_addresses=(resolves_to or address,),
        interfaces=(LO, eth(address=f"{address}/24"), *more),
        **fields,
    )


def variables(**values: str) -> Environment:
    return Environment(variables=values)


def torchrun(rank: int, world_size: int, *, local: int = 1, **fields) -> Launch:
    """A rank that torchrun started, `local` of them on a node."""
    return Launch(
        **{
            "launcher": "torchrun",
            "rank": rank,
            "world_size": world_size,
            "local_rank": rank % local,
            "local_world_size": local,
            "agents": world_size // local,
            "agent_rank": rank,
            "agent_world_size": world_size,
            **fields,
        }
    )

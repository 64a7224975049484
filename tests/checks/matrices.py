"""Matrices of links to plant faults in."""

from __future__ import annotations

from collections.abc import Callable

from ddpdoctor.evidence.links import Links, MasterProbe, Node, NodeLink

HEALTHY_BYTES_PER_SECOND = 1.25e9


def matrix(
    nodes: int,
    outcome: Callable[[int, int], str] = lambda source, target: "ok",
    speed: Callable[[int, int], float] = lambda source, target: HEALTHY_BYTES_PER_SECOND,
    *,
    expected: int | None = None,
    lost: tuple[int, ...] = (),
    speed_mbit: int | None = None,
    latency: Callable[[int, int], float] = lambda source, target: 50e-6,
) -> Links:
    """Every direction between host-0, host-1, ..., with the outcome, speed and latency that the functions give."""
    links = tuple(
        NodeLink(
            source=source,
            target=target,
            outcome=(kind := outcome(source, target)),
            detail="" if kind == "ok" else f"10.0.0.{target + 1}:40000: no answer in time",
            latency_seconds=latency(source, target),
            bytes_per_second=speed(source, target) if kind == "ok" else None,
        )
        for source in range(nodes)
        for target in range(nodes)
        if source != target
    )
    return Links(
        expected=expected or nodes,
        nodes=tuple(
            Node(node=node, host=f"host-{node}", address=f"10.0.0.{node + 1}", speed_mbit=speed_mbit)
            for node in range(nodes)
        ),
        links=links,
        lost=lost,
    )


def probe(outcome: str = "joined", **fields) -> MasterProbe:
    return MasterProbe(addr="10.0.0.1", port=29500, outcome=outcome, **fields)

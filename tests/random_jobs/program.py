"""What each rank of a random job calls, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.random_jobs.layout import WORLD, Mesh

STYLES = ("sharded", "pipeline", "ring", "experts", "replicated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One call.

    `peer` is the global rank at the other end of a send or receive, `bundle` numbers those that are issued as one. The
    device needs the result of a `joined` call for all that it is given later. `line` is the line of the program.
    """

    kind: str
    name: str
    sizes: tuple[int, ...] = (64, 32)
    dtype: str = "BFloat16"
    peer: int | None = None
    bundle: int | None = None
    joined: bool = True
    line: int = 0


@dataclass(frozen=True, slots=True)
class Drain:
    """The host waits for its device: `.item()`."""


Item = Op | Drain


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How much a rank does in a step. `layers` counts per stage where the job is a pipeline."""

    style: str
    steps: int
    layers: int
    micro_batches: int
    evaluates: bool


def shape(style: str, random: Random) -> Shape:
    """A shape of this style."""
    return Shape(
        style=style,
        steps=random.randint(2, 4),
        layers=random.randint(1, 4),
        micro_batches=random.choice((2, 4, 6)),
        evaluates=random.random() < 0.5,
    )


def programs(mesh: Mesh, job: Shape) -> list[list[Item]]:
    """The program of every rank."""
    return [[*_program(mesh, job, rank)] for rank in range(mesh.world)]


def _program(mesh: Mesh, job: Shape, rank: int) -> Iterator[Item]:
    yield Op(kind=WORLD, name="all_reduce", sizes=(1,), line=5)
    yield Drain()
    for step in range(job.steps):
        match job.style:
            case "sharded":
                yield from _sharded(mesh, job)
            case "pipeline":
                yield from _pipeline(mesh, job, rank, step)
            case "ring":
                yield from _ring(mesh, job, rank, step)
            case "experts":
                yield from _experts(mesh, job)
            case _:
                yield from _replicated(mesh, job)
        if job.evaluates and step % 2:
            yield Op(kind=WORLD, name="_all_gather_base", sizes=(1,), dtype="Long", line=90)
            yield Drain()
            yield Op(kind=WORLD, name="_all_gather_base", sizes=(96,), dtype="Byte", line=91)
            yield Drain()
            yield Op(kind=WORLD, name="all_reduce_barrier", sizes=(1,), dtype="Byte", line=92)
            yield Drain()


def _dims(mesh: Mesh) -> list[str]:
    return [name for name, _ in mesh.dimensions]


def _sharded(mesh: Mesh, job: Shape) -> Iterator[Item]:
    """FSDP over the last dimension, gathered one layer ahead, with what is left all-reduced over the first."""
    *outer, inner = _dims(mesh)
    for layer in range(job.layers + 1):
        yield Op(kind=inner, name="_all_gather_base", sizes=(128 * (layer + 1),), joined=False, line=20)
        if layer and len(outer) > 1:
            yield Op(kind=outer[-1], name="all_reduce", sizes=(64, 64), line=21)
    for layer in reversed(range(job.layers + 1)):
        yield Op(kind=inner, name="_all_gather_base", sizes=(128 * (layer + 1),), line=22)
        yield Op(kind=inner, name="_reduce_scatter_base", sizes=(256 * (layer + 1),), joined=False, line=23)
        if outer:
            yield Op(kind=outer[0], name="all_reduce", sizes=(256 * (layer + 1),), joined=False, line=24)
    yield Op(kind=WORLD, name="all_reduce", sizes=(1,), dtype="Float", line=25)
    yield Drain()


def _replicated(mesh: Mesh, job: Shape) -> Iterator[Item]:
    """DDP over all ranks, buffers broadcast, and a metric over each dimension."""
    yield Op(kind=WORLD, name="broadcast", sizes=(18,), dtype="Float", line=30)
    for layer in range(job.layers):
        yield Op(kind=WORLD, name="all_reduce", sizes=(4096 * (layer + 1),), dtype="Float", joined=False, line=31)
    for name in _dims(mesh):
        yield Op(kind=name, name="all_reduce", sizes=(2,), dtype="Float", line=32)
    yield Drain()


def _experts(mesh: Mesh, job: Shape) -> Iterator[Item]:
    """Tokens to the experts of the last dimension and back, gradients over the others."""
    *outer, inner = _dims(mesh)
    for _ in range(2):
        for layer in range(job.layers):
            yield Op(kind=inner, name="all_to_all", sizes=(8,), dtype="Long", line=40)
            yield Drain()
            yield Op(kind=inner, name="all_to_all", sizes=(57 + layer, 32), line=41)
            yield Op(kind=inner, name="all_to_all", sizes=(64, 32), line=42)
    for name in outer:
        yield Op(kind=name, name="_reduce_scatter_base", sizes=(2048,), joined=False, line=43)
        yield Op(kind=name, name="_all_gather_base", sizes=(1024,), line=44)
    yield Op(kind=WORLD, name="all_reduce", sizes=(1,), dtype="Float", line=45)
    yield Drain()


def _ring(mesh: Mesh, job: Shape, rank: int, step: int) -> Iterator[Item]:
    """Blocks handed round the last dimension, each exchange one batch, and gradients over all ranks."""
    *outer, inner = _dims(mesh)
    following, before = mesh.along(rank, inner, 1), mesh.along(rank, inner, -1)
    for layer in range(job.layers):
        for turn in range(mesh.size(inner) - 1):
            bundle = (step * 100 + layer) * 100 + turn
            yield Op(kind=inner, name="send", peer=following, bundle=bundle, joined=False, line=50)
            yield Op(kind=inner, name="recv", peer=before, bundle=bundle, line=51)
        for name in outer[-1:]:
            yield Op(kind=name, name="all_reduce", sizes=(64, 64), line=52)
    yield Op(kind=WORLD, name="all_reduce", sizes=(8192,), dtype="Float", line=53)
    yield Drain()


def _pipeline(mesh: Mesh, job: Shape, rank: int, step: int) -> Iterator[Item]:
    """One forward, one backward along the first dimension; tensor parallel over the last; gradients over the middle ones."""
    first, *others = _dims(mesh)
    stages, stage = mesh.size(first), mesh.coordinate(rank, first)
    before = mesh.along(rank, first, -1) if stage else None
    following = mesh.along(rank, first, 1) if stage < stages - 1 else None

    def passed(name: str, peer: int | None, line: int) -> Iterator[Item]:
        if peer is not None:
            yield Op(kind=first, name=name, peer=peer, joined=name == "recv", line=line)

    def compute(line: int) -> Iterator[Item]:
        for layer in range(job.layers):
            if others:
                yield Op(kind=others[-1], name="all_reduce", sizes=(64, 16 + layer), line=line)

    warm_up = min(stages - stage - 1, job.micro_batches)
    for _ in range(warm_up):
        yield from passed("recv", before, 60)
        yield from compute(61)
        yield from passed("send", following, 62)
    for number in range(job.micro_batches - warm_up):
        yield from passed("recv", before, 63)
        yield from compute(64)
        both = following is not None
        bundle = step * 100 + number if both else None
        if following is not None:
            yield Op(kind=first, name="send", peer=following, bundle=bundle, joined=False, line=65)
            yield Op(kind=first, name="recv", peer=following, bundle=bundle, line=66)
        yield from compute(67)
        yield from passed("send", before, 68)
    for _ in range(warm_up):
        yield from passed("recv", following, 69)
        yield from compute(70)
        yield from passed("send", before, 71)
    for name in others[:-1]:
        yield Op(kind=name, name="all_reduce", sizes=(4096,), dtype="Float", joined=False, line=72)
    yield Op(kind=WORLD, name="all_reduce", sizes=(1,), dtype="Float", line=73)
    yield Drain()

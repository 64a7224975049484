"""What each rank of a training job calls: layers, microbatches, pipeline schedules, and the end of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.stream_jobs.layouts import Group, Layout


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of a group; `tag` names its work for a later `Wait`, without one the stream waits at once."""

    group: Group
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: str = "BFloat16"
    tag: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Transfer:
    """A half of a transfer: `send` to the peer or receive from it."""

    peer: int
    send: bool
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Transfers:
    """Sends and receives of a group: as one batch, or each by itself."""

    group: Group
    parts: tuple[Transfer, ...]
    batched: bool
    tag: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Compute:
    """Kernels of the model on the default stream."""

    seconds: float
    line: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """The default stream waits for a work."""

    tag: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Synchronize:
    """The host waits for the default stream: `.item()`."""

    line: int = 0


Instruction = Collective | Transfers | Compute | Wait | Synchronize


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a training loop is written."""

    steps: int
    layers: int
    microbatches: int
    schedule: str
    """`1f1b`, `gpipe` or `interleaved`."""
    batched: bool
    """Whether pipeline transfers are batches."""
    early: bool
    """Whether receives are posted before the work that precedes them."""
    buckets: int
    prefetch: bool
    """Whether collectives of the sharded axis are asynchronous."""
    ends: tuple[str, ...]
    """What comes at the end of a step: names of `_Rank._END`."""
    every: int
    """After how many steps the host waits for the device."""
    hidden: int


def style(random: Random, layout: Layout) -> Style:
    """Choices of a program."""
    stages = layout.size("pp")
    steps = random.randint(3, 6)
    return Style(
        steps=steps,
        layers=random.randint(1, 3),
        microbatches=random.choice((stages, 2 * stages, stages + 1)) if stages > 1 else random.randint(1, 3),
        schedule=random.choice(("1f1b", "1f1b", "gpipe", "interleaved")) if stages > 1 else "gpipe",
        batched=random.random() < 0.5,
        early=random.random() < 0.3,
        buckets=random.randint(1, 4),
        prefetch=random.random() < 0.5,
        ends=tuple(random.sample(("norm", "loss", "flag", "barrier", "embeddings", "stages"), random.randint(1, 4))),
        every=random.choice((1, 1, 1, 2)),
        hidden=random.choice((1024, 4096, 5120)),
    )


def program(layout: Layout, style: Style, rank: int) -> list[Instruction]:
    """What this rank does, step by step."""
    return [*_Rank(layout, style, rank).job()]


@dataclass(slots=True)
class _Rank:
    layout: Layout
    style: Style
    rank: int
    _tags: int = 0
    _open: list[str] = field(default_factory=list)

    def job(self) -> Iterator[Instruction]:
        world = self._group("world")
        assert world is not None
        yield Collective(world, "broadcast", (1,), (1,), "Long", line=12)
        yield Synchronize(13)
        for step in range(self.style.steps):
            yield from self._step()
            if (step + 1) % self.style.every == 0:
                yield Synchronize(90)
        yield Collective(world, "barrier", (1,), (1,), "Float", line=95)
        yield Synchronize(96)

    def _group(self, axis: str) -> Group | None:
        return self.layout.of_rank[self.rank].get(axis)

    def _step(self) -> Iterator[Instruction]:
        stages = self.layout.size("pp")
        if stages == 1:
            for _ in range(self.style.microbatches):
                yield from self._forward()
                yield from self._backward()
        elif self.style.schedule == "gpipe":
            yield from self._gpipe()
        elif self.style.schedule == "interleaved":
            yield from self._interleaved()
        else:
            yield from self._one_forward_one_backward()
        yield from self._gradients()
        for end in self.style.ends:
            yield from self._end(end)
        yield Compute(2e-3, 80)

    # ------ a stage

    def _forward(self) -> Iterator[Instruction]:
        hidden = self.style.hidden
        for layer in range(self.style.layers):
            yield from self._gathered(layer)
            tensor, context, experts = self._group("tp"), self._group("cp"), self._group("ep")
            if tensor is not None:
                count = len(tensor.ranks)
                yield Collective(tensor, "_all_gather_base", (hidden, 1), (hidden * count, 1), line=21)
            yield Compute(1e-3, 22)
            if context is not None:
                yield from self._ring(context)
            if tensor is not None:
                yield Collective(tensor, "_reduce_scatter_base", (hidden * len(tensor.ranks), 1), (hidden, 1), line=24)
            if experts is not None:
                yield Collective(experts, "_all_gather_base", (16,), (16 * len(experts.ranks),), "Long", line=25)
                yield Collective(experts, "all_to_all", (hidden,), (hidden,), line=26)
                yield Compute(1e-3, 27)
                yield Collective(experts, "all_to_all", (hidden,), (hidden,), line=28)
            yield Compute(5e-4, 29)

    def _backward(self) -> Iterator[Instruction]:
        hidden = self.style.hidden
        for layer in reversed(range(self.style.layers)):
            yield from self._gathered(layer)
            tensor, experts = self._group("tp"), self._group("ep")
            if experts is not None:
                yield Collective(experts, "all_to_all", (hidden,), (hidden,), line=33)
                yield Compute(1e-3, 34)
                yield Collective(experts, "all_to_all", (hidden,), (hidden,), line=35)
            if tensor is not None:
                yield Collective(
                    tensor, "_all_gather_base", (hidden, 1), (hidden * len(tensor.ranks), 1), tag="again", line=36
                )
            yield Compute(2e-3, 37)
            if tensor is not None:
                yield Wait("again", 38)
                yield Collective(tensor, "_reduce_scatter_base", (hidden * len(tensor.ranks), 1), (hidden, 1), line=39)

    def _gathered(self, layer: int) -> Iterator[Instruction]:
        """Weights of a sharded layer, where there is an axis `rep` beside `dp` or nothing but `dp`."""
        shards = self._group("dp")
        if shards is None or not self._shards():
            return
        size = 512 * (layer + 1)
        tag = self._tag() if self.style.prefetch else ""
        yield Collective(shards, "_all_gather_base", (size,), (size * len(shards.ranks),), tag=tag, line=41)
        if tag:
            yield Compute(3e-4, 42)
            yield Wait(tag, 43)

    def _shards(self) -> bool:
        return not {"pp", "ep"} & self.layout.axes.keys()

    def _ring(self, context: Group) -> Iterator[Instruction]:
        """Ring attention: keys and values go round."""
        place, count = context.ranks.index(self.rank), len(context.ranks)
        after, before = context.ranks[(place + 1) % count], context.ranks[place - 1]
        for _ in range(count - 1):
            sizes = (2, self.style.hidden)
            parts = (Transfer(after, True, sizes), Transfer(before, False, sizes))
            yield Transfers(context, parts, batched=True, line=45)
            yield Compute(5e-4, 46)

    # ------ pipelines

    def _sides(self) -> tuple[Group, int | None, int | None]:
        pipeline = self._group("pp")
        assert pipeline is not None
        place = pipeline.ranks.index(self.rank)
        before = pipeline.ranks[place - 1] if place else None
        after = pipeline.ranks[place + 1] if place + 1 < len(pipeline.ranks) else None
        return pipeline, before, after

    def _exchange(self, *parts: tuple[int | None, bool], line: int, wait: bool = True) -> Iterator[Instruction]:
        """Sends and receives that belong together; each side of a pair posts them in an order that fits the other's."""
        pipeline, _, _ = self._sides()
        found = tuple(Transfer(peer, send, (self.style.hidden, 1)) for peer, send in parts if peer is not None)
        if not found:
            return
        if pipeline.ranks.index(self.rank) % 2:
            found = tuple(sorted(found, key=lambda one: one.send))
        else:
            found = tuple(sorted(found, key=lambda one: not one.send))
        tag = "" if wait else self._tag()
        yield Transfers(pipeline, found, batched=self.style.batched, tag=tag, line=line)
        if tag:
            self._open.append(tag)

    def _settle(self) -> Iterator[Instruction]:
        while self._open:
            yield Wait(self._open.pop(0), 58)

    def _gpipe(self) -> Iterator[Instruction]:
        _, before, after = self._sides()
        for _ in range(self.style.microbatches):
            yield from self._exchange((before, False), line=51)
            yield from self._forward()
            yield from self._exchange((after, True), line=52, wait=not self.style.early)
        for _ in range(self.style.microbatches):
            yield from self._exchange((after, False), line=53)
            yield from self._backward()
            yield from self._exchange((before, True), line=54, wait=not self.style.early)
        yield from self._settle()

    def _one_forward_one_backward(self) -> Iterator[Instruction]:
        pipeline, before, after = self._sides()
        place, stages = pipeline.ranks.index(self.rank), len(pipeline.ranks)
        count = self.style.microbatches
        warm = min(stages - place - 1, count)
        steady = count - warm
        for _ in range(warm):
            yield from self._exchange((before, False), line=61)
            yield from self._forward()
            yield from self._exchange((after, True), line=62)
        if steady:
            yield from self._exchange((before, False), line=63)
        for number in range(steady):
            yield from self._forward()
            yield from self._exchange((after, True), (after, False), line=64)
            yield from self._backward()
            if number + 1 < steady:
                yield from self._exchange((before, True), (before, False), line=65)
            else:
                yield from self._exchange((before, True), line=66)
        for _ in range(warm):
            yield from self._exchange((after, False), line=67)
            yield from self._backward()
            yield from self._exchange((before, True), line=68)

    def _interleaved(self) -> Iterator[Instruction]:
        """Two chunks of the model on every stage: what leaves the last stage enters the first one again."""
        pipeline, _, _ = self._sides()
        place, stages = pipeline.ranks.index(self.rank), len(pipeline.ranks)
        after, before = pipeline.ranks[(place + 1) % stages], pipeline.ranks[place - 1]
        for chunk in range(2):
            for _ in range(self.style.microbatches):
                if place or chunk:
                    yield from self._exchange((before, False), line=71)
                yield from self._forward()
                if place + 1 < stages or not chunk:
                    yield from self._exchange((after, True), line=72, wait=False)
        for chunk in range(2):
            for _ in range(self.style.microbatches):
                if place + 1 < stages or chunk:
                    yield from self._exchange((after, False), line=73)
                yield from self._backward()
                if place or not chunk:
                    yield from self._exchange((before, True), line=74, wait=False)
        yield from self._settle()

    # ------ the end of a step

    def _gradients(self) -> Iterator[Instruction]:
        shards, replicas = self._group("dp"), self._group("rep")
        tags = []
        for bucket in range(self.style.buckets):
            size = 25_000 + 1_000 * bucket
            for group, op in (
                (shards, "_reduce_scatter_base" if self._shards() else "all_reduce"),
                (replicas, "all_reduce"),
            ):
                if group is None:
                    continue
                count = len(group.ranks)
                inputs = size * count if op != "all_reduce" else size
                tags.append(self._tag())
                yield Collective(group, op, (inputs,), (size,), "Float", tag=tags[-1], line=75)
            yield Compute(1e-3, 76)
        for tag in tags:
            yield Wait(tag, 77)

    def _end(self, end: str) -> Iterator[Instruction]:
        world, models, ends, stages = (self._group(axis) for axis in ("world", "mp", "emb", "pp"))
        assert world is not None
        if end == "norm":
            group = models or self._group("dp") or world
            yield Collective(group, "all_reduce", (1,), (1,), "Float", line=81)
        elif end == "loss":
            yield Collective(world, "all_reduce", (1,), (1,), "Float", line=82)
        elif end == "flag":
            group = self._group("tp") or world
            yield Collective(group, "broadcast", (4,), (4,), "Long", line=83)
            yield Synchronize(84)
        elif end == "barrier":
            yield Collective(world, "barrier", (1,), (1,), "Float", line=85)
            yield Synchronize(86)
        elif end == "stages" and stages is not None:
            yield Collective(stages, "all_reduce", (2,), (2,), "Float", line=88)
        elif end == "embeddings" and ends is not None and self.rank in ends.ranks:
            yield Collective(ends, "all_reduce", (self.style.hidden, 32), (self.style.hidden, 32), line=87)

    def _tag(self) -> str:
        self._tags += 1
        return f"work {self._tags}"

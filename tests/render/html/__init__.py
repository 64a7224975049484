"""Sick and healthy jobs whose reports the tests of this folder render."""

from __future__ import annotations

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.bench import BenchRank, CollectiveBench, RankTiming, SizeTiming
from ddpdoctor.evidence.links import Links, Node, NodeLink
from ddpdoctor.evidence.ranks import JobSize, RankExit
from ddpdoctor.evidence.run import CommandRun
from ddpdoctor.evidence.source import CodePlace, Condition
from ddpdoctor.evidence.training import Epoch, TrainingRun
from tests.flight_records import TRAIN, Did, flights, record, waits
from tests.hangs import rank

STEP, EXTRA = Did("all_reduce"), Did("broadcast", line=88, function="validate")
RUN = CommandRun(
    command="torchrun --nproc-per-node 4 train.py",
    started_at=1_800_000_000.0,
    ended_at=1_800_000_423.0,
    exit_code=1,
    versions={"torch": "2.13.0", "python": "3.11"},
)
CODE = (
    CodePlace(
        file=TRAIN,
        line=88,
        function="validate",
        conditions=(Condition(line=87, test="rank == 2", branch=0, by_rank=True),),
        excerpt=("def validate(rank):", "    if rank == 2:", "        dist.broadcast(loss, 2)", "    return loss"),
        excerpt_from=86,
    ),
    CodePlace(
        file=TRAIN, line=61, function="train_step", excerpt=("loss.backward()  # <b>&amp;</b>",), excerpt_from=61
    ),
)


def hang(ranks: int = 4, odd: int = 2, calls: int = 40, extra: Did = EXTRA) -> Evidence:
    """A job in which rank `odd` makes a call, a broadcast, that the others never make."""
    made = [STEP] * (calls - 1)
    each = [record([*made, waits(extra if number == odd else STEP)], world=ranks) for number in range(ranks)]
    ends = (RankExit(exit_code=-15, ended_by_launcher=True, tail=("<script>alert(1)</script>",)),)
    facts = {number: (*rank(), *(ends if number == odd else ())) for number in range(ranks)}
    return flights(*each, code=CODE, facts=facts, job=(RUN, JobSize(ranks=ranks)))


def network(nodes: int = 6, filtered: int = 3, slow: int = 5) -> Evidence:
    """Nodes of which one answers on no port, and one is slow."""

    def link(source: int, target: int) -> NodeLink:
        if target == filtered:
            return NodeLink(source=source, target=target, outcome="filtered", detail="timed out")
        speed = 3e8 if slow in (source, target) else 2.9e9
        return NodeLink(source=source, target=target, outcome="ok", latency_seconds=2e-5, bytes_per_second=speed)

    pairs = [(source, target) for source in range(nodes) for target in range(nodes) if source != target]
    return Evidence(
        job=(
            Links(
                expected=nodes,
                nodes=tuple(Node(node=each, host=f"node-{each}", address=f"10.0.0.{each}") for each in range(nodes)),
                links=tuple(link(*pair) for pair in pairs),
                rounds=nodes - 1,
            ),
        )
    )


def bench() -> Evidence:
    """Eight GPUs that nearly reach the published bandwidth."""

    def size(size_bytes: int) -> SizeTiming:
        seconds = 2e-5 + size_bytes / 2.6e11
        return SizeTiming(
            size_bytes=size_bytes,
            count=size_bytes // 4,
            iterations=20,
            mean_seconds=seconds,
            deviation_seconds=seconds / 50,
            seconds=(0.98 * seconds, seconds, 1.04 * seconds),
            ranks=(RankTiming(median_seconds=seconds, late_seconds=1e-6, finished_last=0.2),) * 8,
        )

    place = BenchRank(host="node-0", cores=64, device="NVIDIA H200")
    measured = CollectiveBench(
        collective="all_reduce", dtype="float32", op="sum", backend="nccl", torch="2.13.0", ranks=(place,) * 8,
        sizes=tuple(size(4**power) for power in range(8, 16)), checked=(1, 7),
    )  # fmt: skip
    return Evidence(job=(measured,), ranks=tuple(RankFacts(rank=each, host="node-0", facts=()) for each in range(8)))


def training() -> Evidence:
    """A run of the reference job that learns."""
    epochs = tuple(
        Epoch(epoch=number, accuracy=1 - 0.5 / number, test_loss=1 / number, seconds=2.0 * number)
        for number in range(1, 6)
    )
    run = TrainingRun(
        dataset="digits", model="convnet", world_size=2, backend="gloo", device="cpu", epochs=epochs, batch_size=64,
        seed=0, accuracy=0.9, test_loss=0.2, test_samples=1000, samples_per_second=900.0, seconds=10.0,
        weights=("a", "a"), phases={"forward": 3.0, "backward": 5.0},
    )  # fmt: skip
    return Evidence(job=(run,))


PAGES = {"hang": hang(), "network": network(), "bench": bench(), "training": training(), "nothing": Evidence()}

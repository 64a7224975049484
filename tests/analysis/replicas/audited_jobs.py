"""Jobs of which rank 1 has audited other steps than its peers."""

from __future__ import annotations

from typing import Any

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import Gradient, Integrity, StepSeen
from ddpdoctor.evidence.training_trace import OverflowSeen, ProbeSeen, Table, TensorKind, Track

KINDS = (
    TensorKind(role="parameter", name="w", structure={"dtype": "float32", "shape": "[64]"}),
    TensorKind(role="buffer", name="mask", structure={"dtype": "float32", "shape": "[32]"}),
    TensorKind(role="buffer", name="few", structure={"dtype": "float32", "shape": "[4]"}),
)
TABLES = {
    key: Table(digests={"w": key, "v": "same"}, shapes={"w": (64,), "v": (64,)})
    for key in ("start", "a0", "a1", "a2", "bad", "alone")
}
GRADIENT = Gradient(digest="g", reduced=1.0, local=1.0, count=1, standing="reduced")


def step(number: int, weights: str, after: str, **fields: Any) -> StepSeen:
    own = {"begin": 0, "state": 0, "end": 0, "after": {"w": 7, "v": 1}, **fields.pop("integrity", {})}
    return StepSeen(
        step=number, forwards=number + 1, since=0, weights=weights, after=after, optimizer="SGD",
        **{"state": {"w.momentum": "m"}, "gradients": {"w": GRADIENT}, "integrity": Integrity(**own), **fields},
    )  # fmt: skip


def healthy() -> list[StepSeen]:
    return [step(0, "start", "a0"), step(1, "a0", "a1"), step(2, "a1", "a2")]


def job(
    sick: list[StepSeen], *, nproc: int = 3, every: int = 1, probes: dict[int, ProbeSeen] | None = None
) -> Evidence:
    """Rank 1 has the steps `sick`, the others those of a healthy job."""
    ranks = []
    for rank in range(nproc):
        steps = sick if rank == 1 else healthy()[: len(sick)]
        track = Track(
            method="xxh3", every=every, kinds=KINDS, start="start", tables=TABLES, steps=tuple(steps),
            probes=(probes[rank],) if probes else (),
        )  # fmt: skip
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    return Evidence(ranks=tuple(ranks), about_job=True)


def headline(evidence: Evidence) -> tuple[str, tuple[int, ...], str]:
    first = diagnose(evidence).findings[0]
    return first.code, first.ranks, str(first.measured.get("cause", ""))


def all_with(sick: list[StepSeen], others: list[StepSeen], *, nproc: int = 3, **of_track: Any) -> Evidence:
    """Rank 1 has the steps `sick`, every other rank those of `others`; steps that a GradScaler left out are kept apart."""
    ranks = []
    for rank in range(nproc):
        steps = sick if rank == 1 else others
        track = Track(
            method="xxh3", every=1, kinds=KINDS, start="start", tables=TABLES,
            steps=tuple(one for one in steps if not one.left_out), left_out=tuple(one for one in steps if one.left_out),
            overflows=tuple(OverflowSeen(step=one.step, forwards=one.forwards, scale=8.0) for one in steps if one.left_out),
            **of_track,
        )  # fmt: skip
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    return Evidence(ranks=tuple(ranks), about_job=True)

"""Tracks of ranks as verify-sync reads them, from the weights that each rank had after each step it looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.training_trace import Left, Table, Track


def job(
    *ranks: Sequence[str],
    every: int = 1,
    steps: int | None = None,
    start: str = "start",
    settings: Mapping[int, Mapping[int, str]] | None = None,
) -> Evidence:
    """One job whose rank N had the weights `ranks[N][i]` after step `i * every`, and the rate `settings[N][step]`, else 0.1."""
    rates = settings or {}
    return Evidence(
        ranks=tuple(
            RankFacts(
                rank=rank,
                host="host-a",
                facts=(track(weights, rates.get(rank, {}), every=every, steps=steps, start=start),),
            )
            for rank, weights in enumerate(ranks)
        ),
        about_job=True,
    )


def track(weights: Sequence[str], rates: Mapping[int, str], *, every: int, steps: int | None, start: str) -> Track:
    tables: Mapping[str, Table] = {key: Table(digests={"w": key}, shapes={"w": (1,)}) for key in (start, *weights)}
    seen = tuple(
        StepSeen(step=place * every, forwards=place * every + 1, since=0, weights=weights[place - 1] if place else start,
                 after=key, settings={"lr": rates.get(place * every, "0.1")})
        for place, key in enumerate(weights)
    )  # fmt: skip
    made = len(weights) * every if steps is None else steps
    return Track(
        method="linear", every=every, interval=every, start=start, left=(Left(step=made, weights=weights[-1]),),
        tables=tables, steps=seen, steps_made=made, forwards_made=made,
    )  # fmt: skip

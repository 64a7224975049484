"""The steps of all ranks beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ddpdoctor.evidence.audited_steps import Integrity, StepSeen
from ddpdoctor.evidence.training_trace import EvaluationSeen, ProbeSeen, Track, UnwrappedSeen

ByRank = Mapping[int, StepSeen]
"""What each rank recorded of one step."""
StepKey = tuple[int, int, int]
"""What tells a step of a rank from its others: `StepSeen.key`."""


def aligned(tracks: Mapping[int, Track]) -> list[ByRank]:
    """The steps that all ranks audited, each rank's beside the others'; a rank that skips one stays in line.

    A step whose weights were not recorded, as a trace that ends too early has it, was not audited.
    """
    seen = {
        rank: {step.key: step for step in track.steps if {step.weights, step.after} <= track.tables.keys()}
        for rank, track in tracks.items()
    }
    common = set.intersection(*(set(steps) for steps in seen.values())) if seen else set()
    return [{rank: steps[key] for rank, steps in seen.items()} for key in sorted(common)]


def with_left_out(tracks: Mapping[int, Track]) -> list[ByRank]:
    """`aligned`, and the audited steps that a GradScaler left out on some ranks or on all."""
    return aligned({rank: replace(track, steps=track.steps + track.left_out) for rank, track in tracks.items()})


def number_made(tracks: Mapping[int, Track], steps: Iterable[ByRank]) -> int:
    """How many optimizer steps the ranks made, audited or not; `steps` are those that they audited."""
    made = [track.steps_made for track in tracks.values() if track.steps_made is not None]
    return max([*made, *(one.step + 1 for seen in steps for one in seen.values())], default=0)


def step_of(seen: Mapping[int, StepSeen | UnwrappedSeen | ProbeSeen | EvaluationSeen]) -> int:
    """The number of this step, on the rank that has made most."""
    return max(one.step for one in seen.values())


def last_equal(seen: ByRank, before: ByRank | None) -> StepKey:
    """The last step until whose end no rank's weights had been other than its peers', where they differ after `seen`."""
    if len({one.weights for one in seen.values()}) == 1:
        return min(one.key for one in seen.values())
    return min(one.key for one in before.values()) if before else (-1, 0, 0)


def differing_names(tables: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """The names whose fingerprints are not the same in all tables, or that not all of them have."""
    listed = [*tables]
    return tuple(
        name for name in dict.fromkeys(chain.from_iterable(listed)) if len({table.get(name) for table in listed}) > 1
    )


def integrity_of(seen: ByRank) -> dict[int, Integrity] | None:
    """By rank, the bits and digests that show a hardware error; None unless every rank recorded them."""
    found = {rank: one.integrity for rank, one in seen.items() if one.integrity is not None}
    return found if len(found) == len(seen) else None


def devices_of(tracks: Mapping[int, Track], ranks: Sequence[int]) -> dict[int, str]:
    """Model and number of each rank's GPU, for ranks that have one."""
    return {rank: tracks[rank].device for rank in ranks if rank in tracks and tracks[rank].device}

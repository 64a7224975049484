"""Whether all ranks draw the same random numbers: for their augmentation between two steps, or for dropout within one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ddpdoctor.analysis.replicas.aligned_steps import step_of
from ddpdoctor.analysis.replicas.divergences.data import DrawnFor, SameDraws
from ddpdoctor.analysis.replicas.step_callsites import lines_at
from ddpdoctor.evidence.audited_steps import StepSeen

ENOUGH_STEPS = 3  # equal states in three steps that draw from them are no chance
Seen = Mapping[int, StepSeen]


def same_draws(steps: Sequence[Seen]) -> Iterator[SameDraws]:
    """Each generator that is in the same state on all ranks, and drawn from, in most of the steps."""
    pairs = [
        (before, seen)
        for before, seen in zip([None, *steps], steps, strict=False)
        if len(seen) > 1 and all(map(_is_known, seen.values()))
    ]
    generators = sorted({name for _, seen in pairs for one in seen.values() for state in one.random for name in state})
    for generator in generators:
        for drawn_for, drawn in ((DrawnFor.DATA, _between), (DrawnFor.MODEL, _within)):
            drawing = [seen for before, seen in pairs if drawn(generator, before, seen)]
            same = [seen for seen in drawing if len({one.random[0].get(generator) for one in seen.values()}) == 1]
            if len(same) >= ENOUGH_STEPS and 2 * len(same) > len(pairs) and len(same) == len(drawing):
                yield SameDraws(
                    step=step_of(same[0]), ranks=tuple(sorted(same[0])), generator=generator,
                    drawn_for=drawn_for, steps=len(same), lines=lines_at(same[0], "forward"),
                )  # fmt: skip


def _is_known(one: StepSeen) -> bool:
    """Whether the generators were read at this step: they are not at every one."""
    return any(one.random)


def _within(generator: str, _before: Seen | None, seen: Seen) -> bool:
    """Whether some rank drew from it between the forward and the end of the step."""
    return any(len({state.get(generator) for state in one.random}) > 1 for one in seen.values())


def _between(generator: str, before: Seen | None, seen: Seen) -> bool:
    """Whether some rank drew from it after the last step and before this one's forward."""
    return before is not None and any(
        before[rank].step + 1 == one.step
        and _is_known(before[rank])
        and before[rank].random[-1].get(generator) != one.random[0].get(generator)
        for rank, one in seen.items()
    )

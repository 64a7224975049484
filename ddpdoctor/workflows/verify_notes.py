"""What became of a followed script, beside what its ranks' replicas show: how it ended, and what could not be written down."""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from itertools import chain, pairwise
from pathlib import Path

from ddpdoctor.analysis.replicas.aligned_steps import ByRank, aligned, number_made, step_of, with_left_out
from ddpdoctor.analysis.replicas.local_steps import averages_weights, comparable, has_reduced, is_just_averaged
from ddpdoctor.analysis.replicas.sharded_optimizers import sharding
from ddpdoctor.evidence import Evidence, RankFacts, by_rank
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.model import group_ranks
from ddpdoctor.ranks.training_trace_files import second_wraps

STALLED = "stalled"  # a file beside the traces of a rank whose script was ended for its silence
INTERRUPTED = "interrupted"  # likewise, by Ctrl-C or SIGTERM
ASKED = 8  # of the last audited steps: whether ranks share the parameters out takes time to tell
_MOMENTS = {
    "step": "right after the step", "load": "before a state dict was loaded", "leave": "before it left the process group",
    "end": "at the end of the process",
}  # fmt: skip
LEAST_FREE_BYTES = 1 << 14  # an entry of a small model's step has some kilobytes


def audited_steps(evidence: Evidence) -> tuple[tuple[str, str], ...]:
    """How many steps of a followed script all ranks audited, in words; nothing where they made none."""
    tracks = by_rank(evidence.per_rank(Track))
    steps = with_left_out(tracks)
    made = number_made(tracks, steps)
    return (("audited", f"{len(steps):,} of {made:,} steps, on {len(tracks)} ranks"),) if made else ()


def not_audited(tracks: Sequence[Track]) -> tuple[str, ...]:
    """A note where steps in a row were not audited, because an audit would have cost too much of the job's time."""
    if not tracks or all(track.every for track in tracks):
        return ()
    of_ranks = dict(enumerate(tracks))
    steps = with_left_out(of_ranks)
    looked_at = [-1, *map(step_of, steps), number_made(of_ranks, steps)]
    most = max(after - before - 1 for before, after in pairwise(looked_at))
    if most < 1:
        return ()
    many = f"up to {most:,} steps in a row were not audited" if most > 1 else "some steps were not audited"
    return (f"{many}, to keep the overhead low: `--every 1` checks every step",)


def how_it_ended(script: Path, directory: Path, code: int, started: str) -> tuple[str, ...]:
    """A note where the script failed: what is judged is what it did before. `started` is the command that starts its ranks."""
    if (directory / INTERRUPTED).exists():
        return (f"{script.name} was interrupted; this report covers the steps before that",)
    if code == 0:
        return ()
    judged = f"{script.name} exited with code {code}; this report covers the steps before that"
    return (f"{judged}; `ddpdoctor watch -- {started}` shows why it exited",)


def without_a_final_record(ranks: Sequence[RankFacts], gave_up: Container[str]) -> tuple[str, ...]:
    """A note where ranks ended without an end record; of those in `gave_up`, ranks as text, it is said elsewhere why."""
    tracks = [(str(facts.rank), fact) for facts in ranks for fact in facts.facts if isinstance(fact, Track)]
    silent = sum(track.steps_made is None and rank not in gave_up for rank, track in tracks)
    if not silent:
        return ()
    return (f"{silent} of {len(tracks)} ranks ended without a final record (killed by a signal, or os._exit)",)


def averages(tracks: Sequence[Track]) -> tuple[str, ...]:
    """A note where the ranks make steps of their own and average the weights: which steps were compared."""
    found = [(group, steps) for group in _groups(tracks) if averages_weights(group, steps := aligned(group))]
    if not found:
        return ()
    if not any(is_just_averaged(seen) for group, steps in found for seen in comparable(group, steps)):
        return ("the job averages its weights itself, some ranks at a time: replicas were not compared",)
    first = (
        " while they were reduced, and"
        if any(map(has_reduced, chain.from_iterable(steps for _, steps in found)))
        else ""
    )
    among = " among the ranks that make it" if all(_in_groups(steps) for _, steps in found) else ""
    compared = (
        f"the job averages its weights itself and not its gradients: replicas were compared{first} right after each averaging"
        f"{among}"
    )
    return (
        f"{compared}; in between weights, gradients and optimizer state are each rank's own by design and were not compared",
    )


def _in_groups(steps: Sequence[ByRank]) -> bool:
    averagings = [one.averaging for seen in steps for one in seen.values() if one.averaging is not None]
    return all(averaging.members is not None for averaging in averagings)


def not_comparable(tracks: Sequence[Track]) -> tuple[str, ...]:
    """A note where each rank keeps a part of the optimizer's state, of which there is no second copy."""
    steps = [step for track in tracks for step in track.steps]
    of_torch = next((step.optimizer for step in steps if step.state is None and "ZeroRedundancy" in step.optimizer), "")
    by_hand = any(sharding(seen, group) is not None for group in _groups(tracks) for seen in aligned(group)[-ASKED:])
    if not of_torch and not by_hand:
        return ()
    whose = (
        f"each rank keeps its own part of {of_torch}'s state"
        if of_torch
        else "each rank steps its own part of the weights"
    )
    return (
        f"{whose}: an error in the optimizer's state reaches all ranks alike, and cannot be seen by comparing them",
    )


def ends_not_compared(tracks: Sequence[Track]) -> tuple[str, ...]:
    """A note where ranks ended with other fingerprints of the weights that were taken at different moments, after no audit."""
    ends = [track.left[-1] for track in tracks if track.left]
    if (
        not ends
        or len(ends) < len(tracks)
        or len({end.step for end in ends}) > 1
        or len({end.moment for end in ends}) == 1
    ):
        return ()
    audited = any(step.step + 1 >= ends[0].step for track in tracks for step in track.steps[-1:])
    if audited or len({end.weights for end in ends}) == 1 or any(end.local for end in ends):
        return ()
    when = " and ".join(sorted({_MOMENTS.get(end.moment, "at the end of a pass over the data") for end in ends}))
    why = f"ranks looked at theirs at different moments ({when}), and the program may have written them in between"
    return (
        f"the weights after the last step, {ends[0].step}, were not compared: {why}. `--every 1` compares every step",
    )


def not_made_again(tracks: Sequence[Track]) -> tuple[str, ...]:
    """A note for each reason why optimizer steps that were to be recomputed were not."""
    refused = {step.recomputed.failed for track in tracks for step in track.steps if step.recomputed is not None} - {""}
    return tuple(f"optimizer steps could not be made again: {why}" for why in sorted(refused))


def not_probed(tracks: Sequence[Track]) -> tuple[str, ...]:
    """A note where the job trained and a probe batch that was asked for ran on no rank."""
    if not tracks or not all(track.never_probed and track.steps_made for track in tracks):
        return ()
    runs = "it runs before a forward of a model that DistributedDataParallel wraps, unless that forward is compiled"
    return (f"no probe batch ran, although --probe-every was given: {runs}",)


def stood_still(script: Path, directory: Path, stall_after: float, started: str) -> tuple[str, ...]:
    """That the script was ended for its silence, here or on the other ranks whose files came with theirs (`3-stalled`)."""
    names = [file.name for file in directory.glob(f"*{STALLED}")]
    if not names:
        return ()
    others = sorted(int(name.partition("-")[0]) for name in names if name != STALLED)
    whose = script.name if STALLED in names else f"{script.name} on {group_ranks(others)}"
    message = f"{whose} recorded nothing for {stall_after:g} s and was ended"
    return (f"{message}: `ddpdoctor watch -- {started}` shows which rank blocks it",)


def not_written(directory: Path, place: Path) -> tuple[str, ...]:
    """Why nothing can be said of the rest of the job, where the disk of `directory`, a folder in `place`, is full."""
    free = os.statvfs(directory)
    if free.f_bavail * free.f_frsize >= LEAST_FREE_BYTES:
        return ()
    full = f"{place} is full, so the ranks could not record everything"
    return (f"{full}: free some space there, or set XDG_RUNTIME_DIR or TMPDIR to a directory that has some",)


def wrapped_twice(directory: Path) -> tuple[str, ...]:
    """A note for each line that put a model under DistributedDataParallel a second time, where both wrappers are called."""
    return tuple(
        f"{line.file}:{line.line} in {line.function} wraps a model in DistributedDataParallel that is already wrapped: "
        "each backward reduces gradients twice"
        for line in sorted(second_wraps(directory))
    )


def _groups(tracks: Sequence[Track]) -> list[dict[int, Track]]:
    """The tracks, numbered, by the ranks that their wrappers reduce gradients among."""
    groups: dict[frozenset[int] | None, dict[int, Track]] = {}
    for number, track in enumerate(tracks):
        groups.setdefault(track.replicas, {})[number] = track
    return [*groups.values()]

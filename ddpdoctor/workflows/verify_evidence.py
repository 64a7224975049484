"""The evidence of a script that was followed: what its ranks recorded, and notes on what they did not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ddpdoctor.agent import gave_up, given_up
from ddpdoctor.agent.inside.schema.rank_end import COMPARING
from ddpdoctor.evidence import Evidence, Missing
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.ranks.training_trace_reader import read_tracks
from ddpdoctor.source.stack_lines.context import source_of
from ddpdoctor.workflows.training_script import TrainingScript
from ddpdoctor.workflows.value_chains import chains_in_source
from ddpdoctor.workflows.verify_notes import (
    averages,
    ends_not_compared,
    how_it_ended,
    not_audited,
    not_comparable,
    not_made_again,
    not_probed,
    not_written,
    stood_still,
    without_a_final_record,
    wrapped_twice,
)

JOIN = "call `init_process_group` on every rank, or give `--own-ranks` where the script starts its ranks itself"


def evidence_of(
    script: TrainingScript,
    directory: Path,
    *,
    code: int,
    expected: int | None,
    stall_after: float,
    unread: Sequence[str],
) -> Evidence:
    """What the agents wrote into `directory`, and what is missing of it.

    The script ended with exit code `code`. `expected` is the number of its ranks, where it is known, and `unread` says which
    of their files could not be brought here.
    """
    name, ranks = script.path.name, read_tracks(directory)
    stalled = stood_still(script.path, directory, stall_after, script.without_us)
    undecided = [*unread, *not_written(directory, directory.parents[1])]
    undecided += stalled
    undecided += _absent(expected, ranks=[facts.rank for facts in ranks])
    tracks = [fact for facts in ranks for fact in facts.facts if isinstance(fact, Track)]
    missing = [] if ranks else [Missing(kind="Track", reason=f"no rank of {name} joined a process group")]
    if not ranks and not stalled:
        nothing = f"no rank of {name} joined a process group, so there was nothing to compare"
        undecided.append(nothing if code else f"{nothing}. Next: {JOIN}")
    elif ranks and not any(track.steps or track.start for track in tracks):
        undecided.append(f"{name} wrapped no model in DistributedDataParallel and stepped no optimizer")
    ended = () if stalled else how_it_ended(script.path, directory, code, script.without_us)
    source = source_of({seen.line for track in tracks for seen in track.steps if seen.line is not None})
    of_job = (source, chains_in_source(tracks))
    return Evidence(
        job=tuple(fact for fact in of_job if fact is not None),
        ranks=ranks,
        notes=(
            *given_up(directory),
            *wrapped_twice(directory),
            *_windows(tracks),
            *without_a_final_record(ranks, gave_up(COMPARING, directory)),
            *ended,
        ),
        undecided=tuple(undecided),
        missing=tuple(missing),
        about_job=True,
        meta={"command": script.text},
    )


def _absent(nproc: int | None, *, ranks: Sequence[int]) -> Sequence[str]:
    if nproc is None or not ranks or len(ranks) >= nproc:
        return []
    absent = sorted(set(range(nproc)) - set(ranks))
    return [f"only {len(ranks)} of {nproc} ranks are known to have joined; missing: {', '.join(map(str, absent))}"]


def _windows(tracks: Sequence[Track]) -> Sequence[str]:
    """What was not looked at: steps between audits, and parts of models."""
    notes = [*not_audited(tracks)]
    skipped, on_mesh = _fully_sharded(tracks)
    if skipped:
        notes.append(
            f"{skipped} of {on_mesh} parameters on a mesh are fully sharded: no two ranks hold the same part, so they were "
            "skipped"
        )
    notes += averages(tracks)
    notes += not_comparable(tracks)
    notes += ends_not_compared(tracks)
    notes += not_made_again(tracks)
    notes += not_probed(tracks)
    return notes


def _fully_sharded(tracks: Sequence[Track]) -> tuple[int, int]:
    """How many parameters on a mesh have no part that two ranks hold, and how many there are."""
    parts = [track.steps[-1].parts for track in tracks if track.steps]
    names = {name for mine in parts for name in mine}
    alone = [name for name in names if len({mine[name][0] for mine in parts if name in mine}) == len(parts) > 1]
    return len(alone), len(names)

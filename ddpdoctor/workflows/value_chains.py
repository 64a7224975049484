"""Where values come from that the ranks of a training recorded with their lines: read in the source of the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.evidence.value_chains import DRAWS, HOOK, LOADER, ValueChains, argument_of
from ddpdoctor.source.chains.reader import Question, chains_of

OF_A_SHARE = ("rank", "num_replicas", "seed")
"""The arguments of a DistributedSampler that decide which part of the data it draws."""


def chains_in_source(tracks: Sequence[Track]) -> ValueChains | None:
    """The chains of what these tracks have a line of; None where there is none, or its file cannot be read."""
    questions = {question for track in tracks for question in _questions(track)}
    lines = {line for track in tracks for line in _lines(track)}
    return chains_of(questions, {line.file for line in lines}) if lines else None


def _lines(track: Track) -> Iterator[Frame]:
    """The lines of the program at which the training goes on."""
    yield from (line for line in track.wrap_lines if line is not None)
    for seen in track.steps:
        yield from (line for line in (seen.line, *seen.lines.values()) if line is not None)


def _questions(track: Track) -> Iterator[Question]:
    settings = [one.setting_lines for one in track.steps] + [one.setting_lines for one in track.by_optimizer]
    settings += [one.last.setting_lines for one in track.by_optimizer if one.last is not None]
    for name, line in {(name, line) for each in settings for name, line in each.items()}:
        yield Question(line, argument_of(name))
    for epoch in track.epochs:
        if epoch.share is not None and epoch.share.made is not None:
            yield from (Question(epoch.share.made, name) for name in OF_A_SHARE)
        if epoch.line is not None:
            yield Question(epoch.line, LOADER)
        if epoch.draws is not None:
            yield Question(epoch.draws, DRAWS)
    for hook in {seen.comm_hook for seen in track.steps if seen.comm_hook is not None}:
        yield Question(hook, HOOK)

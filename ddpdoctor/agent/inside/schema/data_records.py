"""The records of the training trace about data: passes over loaders, samplers, and evaluations."""

from typing import NamedTuple

from .source_line import SourceLine


class Share(NamedTuple):
    """The part of a data set that a sampler draws."""

    rank: int
    """The number of the part, from 0."""
    replicas: int
    """How many parts there are."""
    epoch: int
    """The epoch that it was told, or 0."""
    made: SourceLine | None
    """Where it was made."""
    told: SourceLine | None
    """Where it was last told its epoch."""
    seed: int | None = None
    """From which it shuffles; None where that is not known."""


class Epoch(NamedTuple):
    """A pass over a data loader that was trained on."""

    loader: int
    """The number of the loader, from 0, among those that were trained on."""
    number: int
    """The number of the pass over this loader, from 0, among those that were trained on."""
    length: int | None
    """The length of the loader's data set, where it has one."""
    batches: int
    """The number of batches received."""
    finished: bool
    """Whether the pass reached its end."""
    line: SourceLine | None
    """Where the pass began."""
    sampler: str
    """The name of the sampler's class."""
    indices: str | None
    """The indices drawn, in order: 64-bit integers, compressed by zlib, in base64; None where they are not known."""
    data: str = ""
    """What stands for what the data set keeps; empty where that is not known."""
    share: Share | None = None
    """The part of the data set that its sampler draws; None where it divides nothing."""
    draws: SourceLine | None = None
    """The `__iter__` of the sampler, or else of the sampler of batches, if the program has written it itself."""


class Evaluation(NamedTuple):
    """Forwards in evaluation mode between two training steps."""

    step: int
    """The number of training steps before them."""
    batches: int
    """The number of forwards."""
    samples: int
    """The number of samples."""
    input: str
    """Fingerprints of the first inputs, one after the other."""
    collectives: int
    """The number of collectives that the user's code called from the first forward to the next training step."""
    line: SourceLine | None
    """Where the first of them was called."""

"""The records of the training trace about models and their weights: as they are wrapped, and at one moment."""

from typing import NamedTuple

from .source_line import SourceLine


class TensorRow(NamedTuple):
    """A parameter or buffer of a model before it is wrapped."""

    role: str
    """`parameter` or `buffer`."""
    name: str
    """Its name in the user's module."""
    dtype: str
    """Its dtype; for a DTensor also how it lies on its mesh."""
    shape: list[int]
    """The size of each dimension, of the whole tensor on all ranks."""
    stride: list[int] | str
    """Its strides, or the name of the layout of a tensor that has none."""
    requires_grad: bool
    """Whether autograd computes a gradient for it."""
    tied_to: str
    """The name of an earlier tensor that it is the same as, or nothing."""


class ModelListing(NamedTuple):
    """A model that is about to be wrapped."""

    tensors: list[TensorRow]
    """Its parameters and buffers."""


class Wrapped(NamedTuple):
    """A model was wrapped for the first time."""

    line: SourceLine | None
    """The user's line that wrapped it; None where no frame of the user's was on the stack."""
    ranks: list[int] | None = None
    """The members of the wrapper's process group; None for all ranks."""


class BufferBroadcasts(NamedTuple):
    """What a wrapper does with the buffers of its model; for a model that is wrapped again the last record holds."""

    prefix: str
    """What the names of the model's tensors begin with."""
    broadcasts: bool
    """Whether the wrapper copies rank 0's buffers to all ranks before each forward in training."""
    ignored: list[str]
    """The buffers that it leaves out."""


class WrappedTwice(NamedTuple):
    """Two wrappers of one model were called in one step."""

    line: SourceLine
    """Where the second one was made."""


class Samples(NamedTuple):
    """Elements of some tensors of one dtype: of each tensor `SAMPLED` evenly spread ones, or all where it has no more.

    Of a single tensor there may be more.
    """

    tensors: list[int] | None
    """Which tensors of the table, by place in it; None for all of them, in order."""
    dtype: str
    """Their dtype."""
    elements: str
    """The bytes of their elements, one after the other, in hexadecimal digits."""


class Table(NamedTuple):
    """The weights at one moment."""

    phase: str
    """`start` after a wrap, `weights` before a step, `after` it, `last` at the end or before weights are loaded."""
    key: str
    """What stands for these names and fingerprints in other records."""
    names: list[str] | None
    """The names of the tensors."""
    digests: str
    """Their fingerprints, one after the other."""
    samples: list[Samples]
    """Elements of the tensors, in row-major order."""
    shapes: list[list[int]] | None
    """The shape of each tensor."""


class NamedDigests(NamedTuple):
    """Tensors and their fingerprints."""

    names: list[str] | None
    """The names of the tensors."""
    digests: str
    """Their fingerprints, one after the other."""

"""The records of the training trace that tell an error of the hardware from one of the code."""

from typing import NamedTuple


class StepVersions(NamedTuple):
    """How often operations had written tensors, by PyTorch's own counters."""

    begin: int
    """The weights before the first forward."""
    state: int
    """The optimizer's state before the step."""
    after: int
    """The weights after the step."""
    wrapped: int | None = None
    """The weights when the last model was wrapped, in the first audited step after that; None in others."""


class Integrity(NamedTuple):
    """What tells an error of the hardware from one of the code, for the step before it with the same first three fields.

    Strings hold 16 digits for each parameter of the wrapped models, in the order of the tables of weights.
    """

    forwards: int
    """`Step.forwards` of the step that it is about."""
    since: int
    """`Step.since` of the step that it is about."""
    beside: int
    """`Step.beside` of the step that it is about."""
    versions: StepVersions
    """Writes by operations."""
    reduced: str
    """The fingerprints of the gradients when the backward returned, `-` for none; empty where that was not seen."""
    before: str
    """The parities of the weights before the first forward; empty where they are those after the step before, or unknown.

    They are always there in the first audited step after a model was wrapped."""
    after: str
    """The parities of the weights after the step."""
    buffer_writes: list[int]
    """How often each of the step's buffers was written since it was seen first; one that was replaced counts as written."""
    buffers: str
    """The parities of these buffers; `-` for those that nobody may need."""
    given: str = ""
    """The fingerprints of the weights right before the step; empty where they were not looked at: no operation has written
    them since the forward."""
    given_parities: str = ""
    """The parities of these weights."""
    gradient_writes: int | None = None
    """How often operations have written the gradients between the return of the backward and the step; None where one was
    replaced, and where either was not seen."""


class Recomputed(NamedTuple):
    """A step that its rank has made again, twice, from copies of its inputs; for the step with the same first three fields.

    Strings hold 16 digits for each parameter of the wrapped models, in the order of the tables of weights.
    """

    forwards: int
    """`Step.forwards` of the step that it is about."""
    since: int
    """`Step.since` of the step that it is about."""
    beside: int
    """`Step.beside` of the step that it is about."""
    given: str
    """The fingerprints of the weights right before the step."""
    first: str
    """Those after the first repetition."""
    second: str
    """Those after the second one."""
    parity: str
    """The parities of the weights after the first repetition."""
    operation: str
    """The first operation that returned something else in the second repetition; empty for none."""
    failed: str
    """Why the step could not be made again; empty where it could."""


class Device(NamedTuple):
    """The device that a rank trains on."""

    name: str
    """Its model and its unique number, as far as PyTorch tells; empty for a CPU."""


class Probe(NamedTuple):
    """A forward of the same batch on all ranks, beside the training."""

    step: int
    """The number of steps before it."""
    forwards: int
    """The number of forwards through a wrapper so far."""
    weights: str
    """The key of the table of the weights."""
    input: str
    """The fingerprint of the batch, and of the model's buffers."""
    modules: list[str]
    """The modules whose output was seen, with their classes, in the order in which they returned."""
    outputs: str
    """Their outputs' fingerprints."""
    again: str
    """The same of a second run."""
    settings: dict[str, str]
    """What the result may depend on besides: the device, the number of threads, precision and kernels."""

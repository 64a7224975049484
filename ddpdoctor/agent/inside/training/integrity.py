"""What tells an error of the hardware from one of the code: reductions as they came, writes that no operation made, bits.

Every operation of PyTorch that writes a tensor counts up its version. Where bytes changed and no version did, on one rank only
and in one element, no code is known that did it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from ..schema.hardware_records import Integrity, StepVersions
from ..signal_errors import pass_on
from ..tensors.module_listing import same
from ..tensors.tensor_digests import Digests
from ..trace_writer import TraceWriter, verbatim
from .buffer_writes import VERSION, BufferWrites
from .ddp_models import Models
from .step_counts import StepCounts

NOTHING = "-" * 16  # in place of a fingerprint or a parity


class IntegrityLog:
    """Collects over an audited window; `write` writes it down."""

    def __init__(self, trace: TraceWriter, digests: Digests, models: Models) -> None:
        self._trace, self._digests, self._models = trace, digests, models
        self._last: tuple[int, str] | None = (
            None  # after how many steps weights were written down last, and their table
        )
        self._wrapped: int | None = None
        self._writes = BufferWrites()
        self.begin("", 0)

    def model_wrapped(self) -> None:
        """A model was wrapped, and its weights were written down."""
        self._wrapped, self._last = versions([*self._models.parameters().values()]), None

    def begin(self, weights: str, steps: int) -> None:
        """A window begins after `steps` steps with the weights of the table `weights`."""
        own = [*self._models.parameters().values()]
        self._begin, self._state, self._reduced = versions(own), 0, ""
        self._received: list[Tensor] = []  # the gradients when the backward returned
        self._received_writes = 0
        self._gradient_writes: int | None = None
        self._given = self._given_parities = ""
        self._buffer_writes: list[int] = []
        self._buffers = ""
        moved = self._last is not None and self._last[0] == steps and self._last[1] != weights
        self._before = self._digests.parities(own) if moved or self._wrapped is not None else ""

    def forward(self, buffers: Mapping[str, Tensor], *, left_to_ranks: bool) -> None:
        """A model with these buffers is about to run for the first time in this window; their fingerprints were asked for last.

        `left_to_ranks` is whether its wrapper does not make all of them equal.
        """
        kept = self._writes.look(buffers)
        self._buffer_writes += self._writes.of(buffers)
        tensors = [*buffers.values()]
        self._buffers += (
            self._digests.parities_of("buffers", tensors) if left_to_ranks and kept else NOTHING * len(tensors)
        )

    def after_backward(self) -> None:
        """`loss.backward()` has returned, and DDP has reduced: fingerprints of the gradients before anybody changes them."""
        gradients = self._gradients()
        self._received = [one for one in gradients if one is not None]
        self._received_writes = versions(self._received)
        self._reduced = self._digests.joined(self._received, "gradients")
        if len(self._received) < len(gradients):
            there = iter(_cut(self._reduced))
            self._reduced = "".join(NOTHING if gradient is None else next(there) for gradient in gradients)

    def before_step(self, optimizer: Optimizer, *, look: bool = False) -> None:
        """The optimizer is about to step: with `look`, and where operations have written weights, these are looked at."""
        if self._received and same(self._received, [one for one in self._gradients() if one is not None]):
            self._gradient_writes = versions(self._received) - self._received_writes
        own = [*self._models.parameters().values()]
        if own and (look or versions(own) != self._begin):
            self._given = self._digests.joined(own, "weights")
            self._given_parities = self._digests.parities(own)
        kept: Any = optimizer.state
        try:
            self._state = sum(map(VERSION, chain.from_iterable(map(dict.values, kept.values()))))
        except (AttributeError, RuntimeError, TypeError) as error:  # one is no tensor, or of inference mode
            pass_on(error)
            state = chain.from_iterable(of_one.values() for of_one in kept.values() if isinstance(of_one, dict))
            self._state = versions([value for value in state if isinstance(value, Tensor)])

    def write(self, counts: StepCounts, beside: int, after: str, *, left_out: bool = False) -> None:
        """The optimizer has stepped, or its step was left out, which leaves the weights of the table `after`."""
        own = [*self._models.parameters().values()]
        self._last = counts.steps + (not left_out), after
        self._trace.write(
            Integrity(
                forwards=counts.forwards,
                since=counts.since,
                beside=beside,
                versions=StepVersions(self._begin, self._state, versions(own), self._wrapped),
                reduced=verbatim(self._reduced),
                before=verbatim(self._before),
                after=verbatim(self._digests.parities(own)),
                buffer_writes=self._buffer_writes,
                buffers=verbatim(self._buffers),
                given=verbatim(self._given),
                given_parities=verbatim(self._given_parities),
                gradient_writes=self._gradient_writes,
            )
        )
        self._wrapped, self._received = None, []

    def _gradients(self) -> list[Tensor | None]:
        return [parameter.grad for parameter in self._models.parameters().values()]


def versions(tensors: Sequence[Tensor]) -> int:
    """How often operations have written the tensors, all together; those of inference mode are not counted."""
    try:
        return sum(map(VERSION, tensors))
    except RuntimeError as error:  # one of inference mode
        pass_on(error)
        return sum(VERSION(tensor) for tensor in tensors if not tensor.is_inference())


def _cut(digests: str) -> list[str]:
    return [digests[start : start + 16] for start in range(0, len(digests), 16)]

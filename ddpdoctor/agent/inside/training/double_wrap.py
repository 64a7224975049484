"""Whether two wrappers of one model are called in one step: DistributedDataParallel then reduces its gradients twice."""

from __future__ import annotations

from typing import Any

from ..schema.model_records import WrappedTwice
from ..schema.source_line import SourceLine
from ..tensors.named_tensors import unwrapped
from ..trace_writer import TraceWriter


class DoubleWraps:
    """Notes which wrapper each model's forward goes through, and writes down a second one."""

    def __init__(self, trace: TraceWriter) -> None:
        self._trace = trace
        self._callers: dict[int, int] = {}  # by model, the wrapper that this window's forward went through
        self.line: SourceLine | None = None
        """Where a model was wrapped a second time, until that is written down."""

    def wrapped_again(self, line: SourceLine | None) -> None:
        """A wrapped model was wrapped again at `line`."""
        self.line = line
        self._callers.clear()

    def window_begins(self) -> None:
        """The forwards of another step begin."""
        self._callers.clear()

    def forward(self, ddp: Any) -> None:  # noqa: ANN401
        """A wrapper was called."""
        if self._callers.setdefault(id(unwrapped(ddp)), id(ddp)) != id(ddp) and self.line is not None:
            self._trace.write(WrappedTwice(self.line))
            self.line = None

"""Which share of a data set a sampler draws, and the user's lines that made it and told it its epoch."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from .schema.source_line import SourceLine
from .schema.training_trace import Share
from .trace_writer import TraceWriter, user_line


class SamplerShares:
    """Follows samplers that divide a data set between ranks."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Any, SourceLine | None] = WeakKeyDictionary()
        self._told: WeakKeyDictionary[Any, SourceLine | None] = WeakKeyDictionary()

    def install(self, trace: TraceWriter) -> None:
        """Follow `torch.utils.data.distributed.DistributedSampler` and its subclasses."""
        from torch.utils.data.distributed import DistributedSampler

        made, told = trace.observing(self._was_made), trace.observing(self._was_told)
        make: Any = DistributedSampler.__init__
        tell: Any = DistributedSampler.set_epoch

        def __init__(sampler: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N807
            make(sampler, *args, **kwargs)
            made(sampler)

        def set_epoch(sampler: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            tell(sampler, *args, **kwargs)
            told(sampler)

        __init__.__wrapped__ = make  # type: ignore[attr-defined]
        set_epoch.__wrapped__ = tell  # type: ignore[attr-defined]
        DistributedSampler.__init__ = __init__  # type: ignore[assignment,method-assign]
        DistributedSampler.set_epoch = set_epoch  # type: ignore[assignment,method-assign]

    def of(self, loader: Any) -> Share | None:  # noqa: ANN401 - whatever loads data
        """The share that the sampler of a data loader draws; None where it divides nothing."""
        sampler = getattr(loader, "sampler", None)
        inner = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
        for one in (sampler, inner):
            numbers: list[Any] = [getattr(one, name, None) for name in ("rank", "num_replicas", "epoch")]
            if all(isinstance(number, int) for number in numbers):
                seed = getattr(one, "seed", None)
                return Share(
                    numbers[0],
                    numbers[1],
                    numbers[2],
                    _line(self._made, one),
                    _line(self._told, one),
                    seed if isinstance(seed, int) else None,
                )
        return None

    def _was_made(self, sampler: Any) -> None:  # noqa: ANN401
        self._made[sampler] = user_line()

    def _was_told(self, sampler: Any) -> None:  # noqa: ANN401
        self._told[sampler] = user_line()


def _line(lines: WeakKeyDictionary[Any, SourceLine | None], sampler: Any) -> SourceLine | None:  # noqa: ANN401
    try:
        return lines.get(sampler)
    except TypeError:  # a class of the program's own that has no hash
        return None

"""Which share of a data set a sampler draws, and the user's lines that made it and told it its epoch."""

from __future__ import annotations

from typing import Any

from ..by_identity import ByIdentity
from ..schema.data_records import Share
from ..schema.source_line import SourceLine
from ..signal_errors import pass_on
from ..trace_writer import TraceWriter, user_line
from ..user_code import is_users


class SamplerShares:
    """Follows samplers that divide a data set between ranks."""

    def __init__(self) -> None:
        self._made: ByIdentity[SourceLine | None] = ByIdentity()
        self._told: ByIdentity[SourceLine | None] = ByIdentity()

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
        try:
            sampler = getattr(loader, "sampler", None)
            inner = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
            return self._share(sampler) or self._share(inner)
        except Exception as error:
            pass_on(error)
            return None

    def draws(self, loader: Any) -> SourceLine | None:  # noqa: ANN401 - whatever loads data
        """The `__iter__` of a sampler, or else of a sampler of batches, that the program has written itself; or None."""
        batches = getattr(loader, "batch_sampler", None)
        for sampler in (getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None)):
            code = getattr(getattr(type(sampler), "__iter__", None), "__code__", None)
            if code is not None and is_users(code.co_filename):
                return SourceLine(code.co_filename, code.co_firstlineno, code.co_name)
        return None

    def _share(self, sampler: Any) -> Share | None:  # noqa: ANN401
        numbers: list[Any] = [getattr(sampler, name, None) for name in ("rank", "num_replicas", "epoch")]
        if not all(isinstance(number, int) for number in numbers):
            return None
        seed = getattr(sampler, "seed", None)
        rank, replicas, epoch = numbers
        made, told = self._made.get(sampler), self._told.get(sampler)
        return Share(rank, replicas, epoch, made, told, seed if isinstance(seed, int) else None)

    def _was_made(self, sampler: Any) -> None:  # noqa: ANN401
        self._made.put(sampler, user_line())

    def _was_told(self, sampler: Any) -> None:  # noqa: ANN401
        self._told.put(sampler, user_line())

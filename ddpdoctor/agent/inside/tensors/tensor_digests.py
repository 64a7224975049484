"""Fingerprints and values of named tensors as they stand in the trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..schema.model_records import Samples, Table
from ..trace_writer import TraceWriter, verbatim
from .dtensor import is_meshed
from .fingerprint import best_method, combined, digests, first_halves
from .packed_tensors import PackedReader
from .side_by_side import bytes_of

_PLAIN = (bool, int, float, complex, str, bytes, range, slice, torch.dtype, torch.device)
DEEPEST = 5  # lists in lists of numbers
MOST_SAMPLED = 1 << 20  # of one that a replay asks for: 20 MB of text


class Digests:
    """Takes fingerprints by the method of this rank. A table of weights is written when its content is new."""

    def __init__(self, trace: TraceWriter) -> None:
        self.method = best_method()
        self.whole_tensor = ""  # the tensor of which all elements are written down
        self._trace = trace
        self._last = ""
        self._segment = trace.segment
        self._packed: dict[str, PackedReader] = {}

    def write(self, phase: str, named: Mapping[str, Tensor], *, always: bool = False) -> str:
        """Write the fingerprints and some values of `named` as a table of `phase`; returns what stands for its content."""
        if self._segment != self._trace.segment:  # which holds no table yet
            self._segment, self._last = self._trace.segment, ""
        names, tensors = list(named), list(named.values())
        packed = self.packed("weights")
        table = packed.fingerprints_in_bytes(tensors)
        key = combined(table, "\n".join(names).encode()).hex()
        if not always and self._last == key:
            return key
        self._last = key
        samples = [
            Samples(
                None if len(places) == len(names) and places == [*range(len(names))] else places,
                dtype,
                verbatim(data.hex()),
            )
            for places, dtype, data in packed.samples(tensors)
        ]
        if self.whole_tensor in named:
            samples.append(_whole(names.index(self.whole_tensor), named[self.whole_tensor]))
        self._trace.write(
            Table(
                phase=phase,
                key=key,
                names=self._trace.unless_repeated("table names", names),
                digests=verbatim(first_halves(table)),
                samples=samples,
                shapes=self._trace.unless_repeated("table shapes", packed.shapes()),
            )
        )
        return key

    def parities(self, tensors: Sequence[Tensor]) -> str:
        """The parity of each of `tensors`, with which the table begins that was written last."""
        return self.parities_of("weights", tensors)

    def parities_of(self, what: str, tensors: Sequence[Tensor]) -> str:
        """The parity of each of `tensors`, with which the list begins that was read last for `what`."""
        return self.packed(what).parities(tensors) if tensors else ""

    def packed(self, what: str) -> PackedReader:
        """What reads the lists of tensors that are `what`, one after the other."""
        packed = self._packed.get(what)
        if packed is None:
            packed = self._packed[what] = PackedReader(self.method)
        return packed

    def by_name(self, named: Mapping[str, Tensor], what: str = "others") -> dict[str, str]:
        """The fingerprint of each tensor. `what` they are is the same word for all calls with like tensors."""
        table = self.joined([*named.values()], what)
        return {name: table[16 * place : 16 * place + 16] for place, name in enumerate(named)}

    def joined(self, tensors: Sequence[Tensor], what: str = "others") -> str:
        """The fingerprints of all tensors, one after the other; for `what` see `by_name`."""
        return first_halves(self.packed(what).fingerprints_in_bytes(tensors)) if tensors else ""

    def of(self, tensors: Iterable[Tensor], what: str = "") -> str:
        """One fingerprint of all of them; `what` is the same word for all calls with like tensors, where these are many."""
        listed = list(tensors)
        table = self.packed(what).fingerprints_in_bytes(listed) if what else digests(listed, self.method)
        return combined(table).hex()[:16]

    def of_inputs(self, inputs: Any, tensors: Sequence[Tensor]) -> str | None:  # noqa: ANN401 - whatever a forward takes
        """One fingerprint of all `tensors` in it; None where it holds none, or an object that may tell ranks apart as well."""
        return self.of(tensors, "inputs") if tensors and not _holds_more(inputs) else None


def tensors_in(value: Any, depth: int = 3) -> Iterator[Tensor]:  # noqa: ANN401 - whatever a forward takes
    """The tensors of which the whole is on this rank, in tuples, lists and dicts."""
    if isinstance(value, Tensor):
        if not is_meshed(value):
            yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, depth - 1)


def _holds_more(value: Any, depth: int = 3) -> bool:  # noqa: ANN401 - whatever a forward takes
    """Whether `tensors_in` may have left something of it out: an object that may keep tensors or arrays of its own."""
    if isinstance(value, Tensor):
        return is_meshed(value) or depth < 0
    if isinstance(value, (dict, list, tuple)):
        items = value.values() if isinstance(value, dict) else value
        return bool(value) and (depth < -DEEPEST or any(_holds_more(item, depth - 1) for item in items))
    return not (value is None or isinstance(value, _PLAIN))


def _whole(place: int, tensor: Tensor) -> Samples:
    """Elements of the tensor at `place`, which a replay asks for: it may wait for a GPU."""
    count = tensor.numel()
    if not count or tensor.is_complex() or tensor.layout is not torch.strided:
        return Samples([place], "uint8", "")
    flat = tensor.detach().reshape(-1)
    if count > MOST_SAMPLED:
        flat = flat[
            torch.tensor([count * number // MOST_SAMPLED for number in range(MOST_SAMPLED)], device=flat.device)
        ]
    dtype, data = bytes_of(flat)
    return Samples([place], dtype, data.hex())

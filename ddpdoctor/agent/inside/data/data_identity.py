"""Whether ranks read the same data set: a digest of what a data set keeps, and none of the user's code runs for it.

Attributes are read from instances' own dictionaries: paths, tensors, arrays, ranges, and lists and dicts of numbers or text, of
each a few elements. A rank that was given files or a shard of its own keeps another folder, other lists of files, other rows or
another length. A text that is no path tells nothing: a device, say, differs on ranks that share their data.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from ..reachable_objects import instance_dict
from ..signal_errors import pass_on

MOST_OBJECTS = 200  # looked at: below 2 ms
DEEPEST = 6  # ConcatDataset.datasets[0].dataset.files[0]
SPREAD = 16  # elements that are read of a tensor, an array, a list or a dict
MOST_TEXT = 4096  # characters of one text
MOST_KEYS = 4096  # of a dict, which are walked through: below 1 ms


def data_digest(dataset: Any) -> str:  # noqa: ANN401 - whatever a loader was given
    """The digest of what `dataset` keeps; empty where it keeps nothing that can be read, or reading it fails."""
    try:
        contents = [*_contents(dataset)]
    except Exception as error:  # objects of the user's: what cannot be read is not known
        pass_on(error)
        return ""
    return blake2b("\n".join(contents).encode(errors="replace"), digest_size=8).hexdigest() if contents else ""


def _contents(dataset: Any) -> Iterator[str]:  # noqa: ANN401
    queue: deque[tuple[str, Any, int]] = deque([("", dataset, 0)])
    known: set[int] = set()
    while queue and len(known) < MOST_OBJECTS:
        name, value, depth = queue.popleft()
        if id(value) in known:
            continue
        known.add(id(value))
        kind = type(value)  # isinstance would ask the object, and methods of a subclass are the user's
        if kind is range or (kind is str and os.sep in value):
            yield f"{name}={value[:MOST_TEXT] if kind is str else value}"
        elif issubclass(kind, Tensor):
            yield from _elements(name, value)
        elif _is_array(kind):
            yield from _array(name, value)
        elif depth < DEEPEST:
            queue.extend((f"{name}.{label}", inner, depth + 1) for label, inner in _inside(value))
            if kind in {list, tuple} and len(value) > 1:
                yield f"{name}: {len(value)}: " + " ".join(_texts([value[place] for place in _spread(len(value))]))
            elif kind is dict and len(value) > SPREAD:  # a short one is a configuration, with a device or a rank in it
                yield f"{name}: {len(value)}: " + " ".join(_texts([value[key] for key in _keys(value)]))


def _inside(value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    kind = type(value)
    if kind in {list, tuple}:
        yield from ((str(place), value[place]) for place in _spread(len(value)))
    elif kind is dict:
        yield from ((str(key), value[key]) for key in _keys(value))
    else:
        yield from ((key, inner) for key, inner in instance_dict(value).items() if type(key) is str)


def _keys(value: dict[Any, Any]) -> list[Any]:
    """Evenly spread keys among the first of a dict, those that are text or numbers."""
    keys = [*islice(value, MOST_KEYS)]
    return [keys[place] for place in _spread(len(keys)) if type(keys[place]) in {str, int}]


def _texts(values: Sequence[Any]) -> Iterator[str]:
    """The numbers and the texts among `values`."""
    for value in values:
        kind = type(value)
        if kind in {str, bytes}:
            yield repr(value[:MOST_TEXT])
        elif kind in {int, float}:
            yield repr(value)


def _elements(name: str, tensor: Tensor) -> Iterator[str]:
    if type(tensor) is not Tensor or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return
    with torch.no_grad():
        shape = tuple(tensor.shape)
        found = [tensor[_index(place, shape)].item() for place in _spread(tensor.numel())]
    yield f"{name}: {shape} {found!r}"


def _array(name: str, array: Any) -> Iterator[str]:  # noqa: ANN401 - numpy's
    numpy = sys.modules["numpy"]
    base = array
    while base is not None:  # a file that was truncated would end the rank at a touch, and a slow one delay it
        if type(base) is numpy.memmap:
            offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0] + base.offset
            yield f"{name}: {base.filename} {offset} {array.shape} {array.dtype.str}"
            return
        base = getattr(base, "base", None)
    if array.dtype.kind in "biufcSU":
        yield f"{name}: {array.shape} {[array.flat[place] for place in _spread(array.size)]!r}"


def _is_array(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and kind in {numpy.ndarray, numpy.memmap}


def _spread(count: int) -> list[int]:
    """Evenly spread places among `count`, the first and the last among them."""
    return [*range(count)] if count <= SPREAD else [(count - 1) * place // (SPREAD - 1) for place in range(SPREAD)]


def _index(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of the element at `place` in row-major order."""
    found = []
    for size in reversed(shape):
        place, here = divmod(place, size)
        found.append(here)
    return tuple(reversed(found))

"""Whose state an optimizer's numbered entries are, where that is beyond doubt: `state[5]` is that of `2.bias`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ddpdoctor.checkpoints.tensor_table import CheckpointEntries, Key
from ddpdoctor.whole_numbers import whole_number

_STATE = re.compile(r"\.?state\[(\d+)\]\.")


def owned(name: str, owners: Mapping[int, str]) -> str:
    """`2.bias: optimizer.state[5].exp_avg`, or the name as it is where nobody knows."""
    found = _STATE.search(name)
    number = whole_number(found[1]) if found else None
    owner = owners.get(number) if number is not None else None
    return name if owner is None else f"{owner}: {name}"


def owners(listing: CheckpointEntries) -> dict[int, str]:
    """The parameter of each number; nothing where counts or shapes leave a doubt, or names are not in the model's order.

    PyTorch numbers parameters in the order in which the optimizer got them, which is the model's nearly always: it is
    believed where there are as many states as parameters and every state is a scalar or has its parameter's shape.
    """
    parameters = [(key[1], row.shape) for key, row in listing.rows.items() if key[0] == "parameter"]
    states = [
        (key, row.shape) for key, row in listing.rows.items() if _number(key) is not None and row.shape is not None
    ]
    if not listing.ordered or {_number(key) for key, _ in states} != set(range(len(parameters))):
        return {}
    for key, shape in states:
        number = _number(key)
        assert number is not None
        if shape and shape != parameters[number][1]:
            return {}
    return {number: name for number, (name, _) in enumerate(parameters)}


def _number(key: Key) -> int | None:
    found = _STATE.search(key[1]) if key[0] == "optimizer state" else None
    return whole_number(found[1]) if found else None

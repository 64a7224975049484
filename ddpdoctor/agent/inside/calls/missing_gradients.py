"""Which parameters of the wrapped models have no gradient, told to whoever asks while the job hangs.

A rank whose loss left some out has not reduced the bucket that they are in, and goes on while its peers wait for that reduction.
"""

from __future__ import annotations

import json
import weakref
from typing import Any

from ..schema.missing_gradients import MissingGradients

MOST_NAMES = 64
_models: weakref.WeakSet[Any] = weakref.WeakSet()


def note_model(model: Any) -> None:  # noqa: ANN401 - a DistributedDataParallel; torch is not imported here
    """Remember a model that was wrapped, unless DDP itself looks for parameters that a loss leaves out."""
    if not model.find_unused_parameters and not model.static_graph:
        _models.add(model)


def missing_gradients() -> bytes:
    """The answer: of each model of which some parameters have a gradient, those that have none."""
    names: list[str] = []
    for model in list(_models):
        trained = [(name, one.grad is None) for name, one in model.module.named_parameters() if one.requires_grad]
        lacks = [name for name, none in trained if none]
        if len(lacks) < len(trained):
            names += lacks
    return json.dumps(MissingGradients(tuple(names[:MOST_NAMES]), len(names))).encode()

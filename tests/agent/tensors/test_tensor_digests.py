"""The fingerprint of what a forward is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.tensors.tensor_digests import Digests, tensors_in
from ddpdoctor.agent.inside.trace_writer import TraceWriter


@dataclass
class Batch:
    """What detectors and graph networks pass to their models."""

    images: Tensor


def fingerprint(folder: Path, *args: Any, **kwargs: Any) -> str | None:
    rank = Rank(str(folder))
    rank.place((), {})
    return Digests(TraceWriter(rank)).of_inputs((args, kwargs), [*tensors_in((args, kwargs))])


@pytest.mark.parametrize(
    "inputs",
    [
        [torch.ones(2)],
        [torch.ones(2), None, 3, "train", torch.float32],
        [{"images": torch.ones(2), "sizes": [(4, 4)]}],
    ],
)
def test_other_tensors_have_another_fingerprint(tmp_path: Path, inputs: list[Any]) -> None:
    first = fingerprint(tmp_path, *inputs, mask=torch.zeros(2))
    assert first is not None
    assert first == fingerprint(tmp_path, *inputs, mask=torch.zeros(2))
    assert first != fingerprint(tmp_path, *inputs, mask=torch.ones(2))


@pytest.mark.parametrize(
    "inputs",
    [
        [],
        [None, 3],
        [Batch(torch.ones(2))],
        [Batch(torch.ones(2)), torch.ones(2)],
        [{"images": torch.ones(2), "targets": [SimpleNamespace(boxes=torch.ones(4))]}],
        [torch.ones(2), np.ones(2)],
        [[[[[torch.ones(2)]]]]],
    ],
)
def test_what_an_object_keeps_is_not_known_so_that_there_is_no_fingerprint(tmp_path: Path, inputs: list[Any]) -> None:
    assert fingerprint(tmp_path, *inputs) is None

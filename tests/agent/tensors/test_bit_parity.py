"""The parity of a tensor's words: it shows the bits in which two copies differ."""

from __future__ import annotations

import pytest
import torch

from ddpdoctor.agent.inside.tensors.bit_parity import parities
from ddpdoctor.agent.inside.tensors.packed_tensors import PackedReader


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 1001])
def test_a_flipped_bit_shows(dtype: torch.dtype, count: int) -> None:
    tensor = (torch.arange(count) % 7).to(dtype)
    other = tensor.clone()
    other.view(torch.uint8)[-1] ^= 1 << 5
    apart = int(parities([tensor]), 16) ^ int(parities([other]), 16)
    assert apart.bit_count() == 1
    assert apart.bit_length() % 8 == 6


def test_every_tensor_has_sixteen_digits() -> None:
    tensors = [torch.zeros(0), torch.ones(3, 2).t(), torch.ones(4)[1:]]
    assert len(parities(tensors)) == 3 * 16
    assert parities([tensors[1]]) == parities([torch.ones(6)])


@pytest.mark.parametrize("count", [1, 9, 50_000])
def test_copies_side_by_side_have_the_same_parities(count: int) -> None:
    dtypes = (torch.float32, torch.bfloat16, torch.float64, torch.bool)
    tensors = [(torch.arange(count + number) % 5).to(dtype) for number, dtype in enumerate(dtypes)]
    tensors.append(torch.randn(count, 6)[:, ::2].t())
    packed = PackedReader("xxh3")
    packed.fingerprints([*tensors, torch.ones(3)])
    assert packed.parities(tensors) == parities(tensors)

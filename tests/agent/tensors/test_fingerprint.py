"""The fingerprint changes if and only if a byte does; the structure has a digest of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ddpdoctor.agent.inside.tensors import triton_row_hash
from ddpdoctor.agent.inside.tensors.fingerprint import ROW, STAGED_ROWS, as_bytes, digests, row_hashes, weights
from ddpdoctor.agent.inside.tensors.named_tensors import inventory, structure_digest
from ddpdoctor.agent.inside.tensors.packed_tensors import PackedReader

METHODS = ["linear", "xxh3"]
DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int8,
    torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128,
    torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip


def one(tensor: Tensor, method: str) -> tuple[int, int]:
    first, second = digests([tensor], method)[0].tolist()  # type: ignore[arg-type]
    return first, second


def swapped(x: Tensor, a: int, b: int, width: int = 1) -> Tensor:
    y = x.clone()
    y[a : a + width], y[b : b + width] = x[b : b + width], x[a : a + width]
    return y


def changed(x: Tensor, change: Callable[[Tensor], None]) -> Tensor:
    y = x.clone()
    change(y)
    return y


def flip(x: Tensor, *at: int) -> Tensor:
    y = x.clone()
    y[list(at)] *= -1
    return y


X = torch.randn(4096, generator=torch.Generator().manual_seed(5))
PAIRS = {
    "one lowest mantissa bit": (X, changed(X, lambda y: y.view(torch.int32)[17:18].bitwise_xor_(1))),
    "two elements swapped": (X, swapped(X, 3, 100)),
    "two aligned words swapped": (X, swapped(X, 4, 100, width=2)),
    "rows permuted": (X.view(64, 64), X.view(64, 64).flip(0)),
    "sign of two floats at odd places": (X, flip(X, 1, 3)),
    "sign of two neighbours": (X, flip(X, 2, 3)),
    "negated": (X, -X),
    "ones and zeros": (torch.ones(64), torch.zeros(64)),
    "ones and twos": (torch.ones(64), torch.full((64,), 2.0)),
    "a billionth on small values": (X * 1e-3, X * 1e-3 + 1e-9),
    "all rows but the first replaced": (
        X.view(64, 64),
        torch.cat([X.view(64, 64)[:1], torch.randn(63, 64, generator=torch.Generator().manual_seed(6))]),
    ),
    "zero and minus zero": (torch.zeros(8), -torch.zeros(8)),
    "NaN and infinity": (torch.full((8,), torch.nan), torch.full((8,), torch.inf)),
    "NaN payload": (
        torch.full((1,), 0x7FC00000, dtype=torch.int32).view(torch.float32),
        torch.full((1,), 0x7FC00001, dtype=torch.int32).view(torch.float32),
    ),
    "lowest bit of a float64": (X.double(), changed(X.double(), lambda y: y.view(torch.int64)[9:10].bitwise_xor_(1))),
    "one fp8 element": (
        X.to(torch.float8_e4m3fn),
        changed(X.to(torch.float8_e4m3fn), lambda y: y.view(torch.uint8)[9:10].bitwise_xor_(1)),
    ),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=list(PAIRS))
def test_what_other_checks_miss_is_seen(pair: tuple[Tensor, Tensor], method: str) -> None:
    assert one(pair[0], method) != one(pair[1], method)


@pytest.mark.parametrize("method", METHODS)
def test_two_flipped_signs_are_seen_every_time(method: str) -> None:
    """Half of these pairs escape one linear lane with random weights, all of them XOR."""
    generator = torch.Generator().manual_seed(8)
    for _ in range(300):
        x = torch.randn(512, generator=generator)
        at = torch.randperm(256, generator=generator)[:2] * 2 + 1
        assert one(x, method) != one(flip(x, *at.tolist()), method)


class Marked(Tensor):
    """A subclass that adds nothing."""


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda base: base,
    "transposed": lambda base: base.transpose(0, -1) if base.dim() > 1 else base,
    "strided": lambda base: base[..., ::2] if base.dim() else base,
    "expanded": lambda base: base.expand(2, *base.shape),
    "offset": lambda base: base[1:] if base.dim() and base.shape[0] else base,
    "channels last": lambda base: base[None].to(memory_format=torch.channels_last) if base.dim() == 3 else base,
    "overlapping": lambda base: base.flatten().unfold(0, 2, 1) if base.numel() > 1 else base,
    "conjugated": lambda base: base.conj(),
    "imaginary": lambda base: base.conj().imag if base.is_complex() else base,  # a view with its sign bit set apart
    "parameter": lambda base: nn.Parameter(base, requires_grad=base.is_floating_point() or base.is_complex()),
    "subclass": lambda base: base.as_subclass(Marked),
}


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Any dtype, shape and layout, empty and 0-d ones among them."""
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    dtype = draw(st.sampled_from(DTYPES))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1 << 30)))
    base = torch.randint(0, 9 if dtype != torch.bool else 2, [*shape], generator=generator).to(dtype)
    return LAYOUTS[draw(st.sampled_from(list(LAYOUTS)))](base)


@pytest.mark.parametrize("method", METHODS)
def test_a_storage_that_was_read_can_still_be_resized(method: Any) -> None:
    large = torch.ones(300_000)
    packed = PackedReader(method)
    packed.fingerprints([large, torch.ones(3)])
    packed.parities([large, torch.ones(3)])
    one(large, method)
    large.untyped_storage().resize_(0)
    assert large.untyped_storage().nbytes() == 0


@pytest.mark.parametrize("method", METHODS)
@given(tensor=tensors(), data=st.data())
@settings(max_examples=150, deadline=None)
def test_it_changes_exactly_when_a_byte_does(method: str, tensor: Tensor, data: st.DataObject) -> None:
    before = one(tensor, method)
    copy = as_bytes(tensor).clone()
    assert one(copy, method) == before
    if copy.numel():
        at = data.draw(st.integers(0, copy.numel() - 1))
        copy[at] ^= data.draw(st.integers(1, 255))
        assert one(copy, method) != before


@given(tensor=tensors())
@settings(max_examples=200, deadline=None)
def test_all_elements_are_read_whatever_the_layout(tensor: Tensor) -> None:
    def elements(flat: Tensor) -> list[bytes]:
        return sorted(row.numpy().tobytes() for row in flat.view(-1, tensor.element_size())) if flat.numel() else []

    plain = tensor.detach().as_subclass(Tensor).resolve_conj().resolve_neg().flatten()
    plain = plain.clone(memory_format=torch.contiguous_format)  # `contiguous` leaves an empty tensor its odd strides
    assert elements(as_bytes(tensor).as_subclass(Tensor)) == elements(plain.view(torch.uint8))


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_without_data_has_its_structure_alone(method: str) -> None:
    meta, larger = torch.empty(3, 4, device="meta"), torch.empty(3, 5, device="meta")
    assert one(meta, method) == one(larger, method) == one(torch.empty(0), method)
    held, other = nn.Module(), nn.Module()
    held.register_buffer("x", meta)
    other.register_buffer("x", larger)
    assert structure_digest(inventory(held)) != structure_digest(inventory(other))


@given(tensor=tensors(), other=tensors())
@settings(max_examples=100, deadline=None)
def test_the_structure_digest_changes_exactly_when_the_structure_does(tensor: Tensor, other: Tensor) -> None:
    def holder(value: Tensor, name: str = "x") -> nn.Module:
        module = nn.Module()
        module.register_buffer(name, value)
        return module

    def digest(module: nn.Module) -> bytes:
        return structure_digest(inventory(module))

    def same_stride() -> bool:
        return inventory(holder(tensor))[0].structure == inventory(holder(other))[0].structure

    assert digest(holder(tensor)) == digest(holder(tensor.detach().requires_grad_(tensor.requires_grad)))
    assert digest(holder(tensor)) != digest(holder(tensor, "y"))
    assert (digest(holder(tensor)) == digest(holder(other))) == same_stride()
    if tensor.dtype != other.dtype or tensor.shape != other.shape:
        assert digest(holder(tensor)) != digest(holder(other))


def test_tied_parameters_are_read_once_and_their_tie_is_structure() -> None:
    tied, loose = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    loose.load_state_dict(tied.state_dict())
    tied[1].weight = tied[0].weight
    with torch.no_grad():
        loose[1].weight.copy_(loose[0].weight)
    assert [item.tied_to for item in inventory(tied)] == ["", "", "0.weight", ""]
    assert structure_digest(inventory(tied)) != structure_digest(inventory(loose))


@pytest.mark.parametrize("rows", [1, STAGED_ROWS - 1, STAGED_ROWS, STAGED_ROWS + 3])
@pytest.mark.parametrize("extra", [0, 1, 9])
def test_a_tensor_has_one_fingerprint_however_it_is_batched(rows: int, extra: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    data = torch.randint(0, 256, (8 * ROW * rows + extra + 8,), dtype=torch.uint8, generator=generator)
    aligned, shifted = data[8:].clone(), data[8:]
    moved = torch.cat([torch.zeros(3, dtype=torch.uint8), aligned])[3:]
    alone = digests([aligned])[0]
    together = digests([torch.ones(5), aligned, torch.ones(8 * ROW), shifted, moved])
    assert together[1].equal(alone)
    assert together[3].equal(alone)
    assert together[4].equal(alone)


def test_the_gpu_path_without_triton_gives_the_same_bits() -> None:
    words = torch.randint(-(2**63), 2**63 - 1, (300, ROW))
    low, high = weights("low", ROW), weights("high", ROW)
    assert torch.equal(triton_row_hash.plain_row_hashes(words, low, high), row_hashes(words))


def test_the_weights_never_change() -> None:
    """Ranks with other versions of torch or numpy must agree."""
    assert weights("low", 2).tolist() == weights("low", 5000)[:2].tolist()
    assert [hex(number & (1 << 64) - 1) for number in weights("first", 2).tolist()] == EXPECTED


EXPECTED = ["0x433ebf21b5f33f3", "0x92fb4774ea46236"]

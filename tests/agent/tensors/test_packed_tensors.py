"""Tensors that are read in groups: every changed byte is seen in the tensor that it is in, however the list is made up."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ddpdoctor.agent.inside.tensors import tensor_addresses
from ddpdoctor.agent.inside.tensors.gradient_projection import projection
from ddpdoctor.agent.inside.tensors.module_listing import Listing
from ddpdoctor.agent.inside.tensors.packed_tensors import LocalGradients, PackedReader
from ddpdoctor.agent.inside.training.ddp_models import Models
from ddpdoctor.ranks.element_texts import element_texts
from tests.agent import odd_tensors

METHODS: list[Any] = ["linear", "xxh3"]
SHAPES = [(), (1,), (3,), (0,), (24, 24), (7, 1, 5), (300, 300), (5000,)]  # the last but one is read where it is
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.float8_e4m3fn]


def drawn(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2 if dtype is torch.bool else 9, shape, generator=generator).to(dtype)


LISTS = st.lists(
    st.tuples(st.sampled_from(SHAPES), st.sampled_from(DTYPES), st.integers(0, 99)), min_size=1, max_size=6
)


@pytest.mark.parametrize("method", METHODS)
@given(parts=LISTS, data=st.data())
@settings(max_examples=25, deadline=None)
def test_one_changed_byte_changes_the_fingerprint_of_its_tensor_alone(method: Any, parts: Any, data: Any) -> None:
    tensors = [drawn(*part) for part in parts]
    packed = PackedReader(method)
    before = packed.fingerprints(tensors).clone()
    assert torch.equal(packed.fingerprints([tensor.clone() for tensor in tensors]), before), (
        "other objects, the same bytes"
    )
    assert torch.equal(PackedReader(method).fingerprints(tensors), before), "another rank has a layout of its own"
    where = data.draw(st.sampled_from(range(len(tensors))))
    if tensors[where].numel():
        memory = tensors[where].view(-1).view(torch.uint8)
        memory[data.draw(st.integers(0, memory.numel() - 1))] ^= data.draw(st.integers(1, 255))
        after = packed.fingerprints(tensors)
        assert [place for place in range(len(tensors)) if not torch.equal(before[place], after[place])] == [where]


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "minus zero": lambda _: -torch.zeros(24),
    "a NaN with another payload": lambda _: torch.full((24,), 0x7FC00001, dtype=torch.int32).view(torch.float32),
    "signs of two floats at odd places": lambda x: x * torch.tensor([1.0, -1.0, 1.0, -1.0] + [1.0] * 20),
    "two elements swapped": lambda x: x[[1, 0, *range(2, 24)]],
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("change", CHANGES)
def test_what_other_sums_miss_is_seen(method: Any, change: str) -> None:
    plain = {"minus zero": torch.zeros(24), "a NaN with another payload": torch.full((24,), torch.nan)}
    x = plain.get(change, torch.randn(24, generator=torch.Generator().manual_seed(4)))
    others = [torch.ones(24), torch.ones(5)]
    packed = PackedReader(method)
    before = packed.fingerprints([others[0], x, others[1]])
    after = packed.fingerprints([others[0], CHANGES[change](x), others[1]])
    assert (before != after).any(1).tolist() == [False, True, False]


@pytest.mark.parametrize("method", METHODS)
def test_a_list_of_other_sizes_dtypes_or_shapes_is_read_as_it_is(method: Any) -> None:
    packed = PackedReader(method)
    lists = [
        [torch.ones(6), torch.ones(2, 3)],
        [torch.ones(6), torch.ones(6)],  # the same sizes, another shape
        [torch.ones(6).half(), torch.ones(2, 3)],
        [torch.ones(6), torch.ones(7)],
        [torch.eye(3).to_sparse(), torch.ones(3)],
        [torch.ones(2, dtype=torch.complex64), torch.ones(3).expand(2, 3)],
        [torch.ones(6)[::2], torch.ones(3, 2).t()],
        [],
    ]
    for _ in range(2):
        for tensors in lists:
            assert torch.equal(packed.fingerprints(tensors), PackedReader(method).fingerprints(tensors))
            assert packed.fingerprints(tensors).shape == (len(tensors), 2)


@pytest.mark.parametrize("method", METHODS)
def test_projections_are_those_of_each_gradient_and_samples_its_elements(method: Any) -> None:
    generator = torch.Generator().manual_seed(2)
    gradients = [torch.randn(shape, generator=generator) for shape in SHAPES]
    gradients[4], gradients[2] = gradients[4].half(), gradients[2].double()
    packed = PackedReader(method)
    packed.fingerprints(gradients)
    expected = torch.stack([projection(one).double() for one in gradients])
    torch.testing.assert_close(packed.projections(gradients), expected, rtol=1e-4, atol=1e-4)
    found: dict[int, list[str]] = {}
    for places, dtype, data in packed.samples(gradients):
        texts = [*element_texts(dtype, data)]
        for place in places:
            count = min(gradients[place].numel(), 8)
            found[place], texts = texts[:count], texts[count:]
        assert not texts
    assert found[2] == [repr(one) for one in gradients[2].tolist()]
    assert found[7] == [repr(one) for one in gradients[7][:: 5000 // 8].tolist()]
    assert found[4] == [repr(gradients[4].flatten()[576 * place // 8].item()) for place in range(8)]


@pytest.mark.parametrize("count", [3, 64, 65, 4096, 4097, 12_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_copy_has_the_projection_of_the_gradient_itself(count: int, dtype: torch.dtype) -> None:
    """An average of local projections, which are of copies, is compared with one that may be of the gradient."""
    generator = torch.Generator().manual_seed(count)
    gradients = [torch.randint(-9, 9, (size,), generator=generator).to(dtype) for size in (count, 5, 2 * count)]
    packed = PackedReader("xxh3")
    packed.fingerprints(gradients)
    expected = torch.stack([projection(one).double() for one in gradients])
    rounding = 1e-6 * torch.stack([one.double().norm() for one in gradients])
    assert ((packed.projections(gradients) - expected).abs() <= rounding).all()


@pytest.mark.filterwarnings("error")
def test_gradients_that_are_not_finite_are_projected_without_a_warning() -> None:
    gradients = [torch.zeros(200), torch.zeros(200), torch.ones(3)]
    gradients[0][0] = gradients[0][64] = gradients[1][0] = torch.inf
    gradients[1][64] = -torch.inf  # one of the two is the sum of both infinities
    packed = PackedReader("xxh3")
    packed.fingerprints(gradients)
    found = packed.projections(gradients)
    assert found.isfinite().tolist() == [False, False, True]
    assert found.isnan().any()


def test_local_gradients_keep_what_was_taken_last_or_carried_over() -> None:
    parameters = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(300, 300))]
    local = LocalGradients(parameters, "xxh3")
    small, large = local.target(0), local.target(1)
    assert small is not None
    assert large is None
    small.copy_(torch.ones(3))
    local.take(1, torch.ones(300, 300))
    expected = torch.stack([projection(torch.ones(3)), projection(torch.ones(300, 300))]).double()
    torch.testing.assert_close(local.projections(), expected)
    more = LocalGradients(parameters, "xxh3")
    more.carry_over(local.projections())
    torch.testing.assert_close(more.projections(), expected)
    more.forget()
    assert more.projections().tolist() == [0.0, 0.0]


def test_the_listing_of_parameters_is_the_same_dict_until_the_modules_change() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    listing = Listing("parameters", "model2:")
    first = listing.of(model)
    assert [*first] == ["model2:0.weight", "model2:0.bias", "model2:1.weight", "model2:1.bias"]
    assert listing.of(model) is first
    changes: list[Callable[[], object]] = [
        lambda: setattr(model[0], "weight", nn.Parameter(torch.ones(2, 2))),
        lambda: model[0]._parameters.update(bias=nn.Parameter(torch.ones(2))),  # as Module.to does
        lambda: model.append(nn.Linear(2, 1)),
        lambda: model[1].register_parameter("bias", None),
        lambda: model[0].register_module("more", nn.Linear(1, 1)),
    ]
    for change in changes:
        change()
        found = listing.of(model)
        assert {name.removeprefix("model2:"): id(one) for name, one in found.items()} == {
            name: id(one) for name, one in model.named_parameters()
        }
        assert listing.of(model) is found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TorchScript
def test_the_listing_knows_modules_of_torchscript() -> None:
    """A scripted module has other containers for its registries, and a traced one does not have them in its dictionary."""
    traced = torch.jit.trace(nn.Sequential(nn.Linear(2, 2)), torch.ones(1, 2))  # type: ignore[no-untyped-call]
    model = nn.Sequential(nn.Linear(2, 2), torch.jit.script(nn.Sequential(nn.Linear(2, 2))), traced)
    listing = Listing("parameters", "")
    found = listing.of(model)
    assert [*found] == ["0.weight", "0.bias", "1.0.weight", "1.0.bias", "2.0.weight", "2.0.bias"]
    assert {name: id(one) for name, one in found.items()} == {name: id(one) for name, one in model.named_parameters()}
    assert listing.of(model) is found
    model.append(nn.Linear(2, 2))
    assert [*listing.of(model)] == [*found, "3.weight", "3.bias"]


def test_parameters_of_the_optimizer_alone_are_named_by_their_place() -> None:
    extra = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([extra], lr=0.1)
    models = Models()
    first = models.parameters(optimizer)
    assert [*first] == ["param_groups[0]['params'][0]"]
    assert models.parameters(optimizer) is first
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3))]})
    assert len(models.parameters(optimizer)) == 2


@pytest.mark.parametrize(
    ("dtype", "values", "texts"),
    [
        (torch.bfloat16, [1.5, -0.0, float("nan")], ["1.5", "-0.0", "nan (0x7fc0)"]),
        (torch.float16, [0.1, float("inf")], ["0.0999755859375", "inf"]),
        (torch.uint8, [7, 255], ["7", "255"]),
        (torch.bool, [True, False], ["True", "False"]),
    ],
)
def test_elements_are_shown_with_every_bit_that_matters(
    dtype: torch.dtype, values: list[float], texts: list[str]
) -> None:
    data = torch.tensor(values, dtype=dtype).view(torch.uint8).numpy().tobytes()
    assert [*element_texts(str(dtype).removeprefix("torch."), data)] == texts
    assert [*element_texts("qint8", data)] == []


@pytest.fixture(scope="module")
def read_in_a_process() -> dict[str, Any]:
    """What was found of each odd tensor, or how the process ended that read it; another one goes on with the next."""
    found: dict[str, Any] = {}
    left = [*odd_tensors.ODD]
    while left:
        ended = subprocess.run(
            [sys.executable, odd_tensors.__file__, *left],
            cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        found |= dict(map(json.loads, ended.stdout.splitlines()))
        left = [name for name in left if name not in found]
        if left:
            found[left.pop(0)] = f"exit {ended.returncode}: {ended.stderr[-2000:]}"
    return found


@pytest.mark.parametrize("what", odd_tensors.ODD)
def test_a_tensor_without_memory_of_its_own_ends_no_job(what: str, read_in_a_process: dict[str, Any]) -> None:
    as_plain = {"once": True, "again": True, "apart": True}
    assert read_in_a_process[what] == {"xxh3": as_plain, "linear": as_plain}


X = torch.arange(16.0).reshape(4, 4)
Z = torch.complex(X, X)
SAME_PLACE: dict[str, tuple[Tensor, Tensor]] = {
    "transposed": (X, X.t()),
    "another shape": (X, X.reshape(2, 8)),
    "another dtype": (X, X.view(torch.int32)),
    "a part of the same size": (X[:, :2], X.view(-1)[:8].view(4, 2)),
    "conjugated": (Z, Z.conj()),
}


@pytest.fixture(params=["with PyTorch's guards", "without"])
def guards(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PyTorch with the guards of compiled code, by which tensors are known again, and one without."""
    if request.param == "without":
        monkeypatch.setattr(tensor_addresses, "_torch_has_guards", lambda: False)
    else:
        assert tensor_addresses._torch_has_guards()


@pytest.mark.usefixtures("guards")
@pytest.mark.parametrize("what", SAME_PLACE)
def test_another_tensor_at_the_same_address_is_read_anew(what: str) -> None:
    packed, fresh = PackedReader("xxh3"), PackedReader("xxh3")
    before, after = SAME_PLACE[what]
    packed.fingerprints([before])
    assert torch.equal(packed.fingerprints([after]), fresh.fingerprints([after]))
    assert packed.shapes() == fresh.shapes() == [[*after.shape]]
    assert packed.samples([after]) == fresh.samples([after])
    assert torch.equal(packed.projections([after]), fresh.projections([after]))


@pytest.mark.usefixtures("guards")
def test_a_list_in_which_a_tensor_is_twice_is_known_again() -> None:
    tensors = [torch.ones(3), torch.ones(2)]
    tensors.append(tensors[0])
    where = tensor_addresses.TensorAddresses.of(tensors)
    assert where is not None
    assert where.holds(tensors)


@pytest.mark.usefixtures("guards")
@pytest.mark.parametrize("mode", [partial(torch.autocast, "cpu"), torch.inference_mode])
def test_tensors_are_known_again_whatever_mode_is_on(mode: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A forward under autocast is read between two optimizer steps without it."""
    tensors, packed = [torch.ones(300, 300), torch.ones(5)], PackedReader("xxh3")
    read = list[int]()
    of = tensor_addresses.TensorAddresses.of
    monkeypatch.setattr(
        tensor_addresses.TensorAddresses, "of", lambda *given, **how: read.append(1) or of(*given, **how)
    )
    for _ in range(5):
        packed.fingerprints(tensors)
        with mode():
            packed.fingerprints(tensors)
    assert len(read) <= 3
    tensors[1][2] = 7
    assert torch.equal(packed.fingerprints(tensors), PackedReader("xxh3").fingerprints(tensors))


def test_guards_that_miss_a_difference_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subclass, a parameter and a conjugated tensor are each probed."""
    real = tensor_addresses._likeness_in_torch

    def blind(of_type: type[Tensor] | None) -> Callable[[Any], Callable[..., bool]]:
        def likeness(tensors: Any) -> Callable[..., bool]:
            known = real(tensors)
            return lambda one: (
                one.is_conj() if of_type is None and one.is_complex() else type(one) is of_type or known(one)
            )

        return likeness

    probe = tensor_addresses._torch_has_guards.__wrapped__
    assert probe()
    for missed in (tensor_addresses._Subclass, nn.Parameter, None):
        monkeypatch.setattr(tensor_addresses, "_likeness_in_torch", blind(missed))
        assert not probe()


@pytest.mark.usefixtures("guards")
@pytest.mark.parametrize("rows_first", [True, False])
def test_a_storage_that_is_freed_and_comes_back_is_read_each_time(rows_first: bool) -> None:
    whole, packed = torch.ones(256, 512), PackedReader("xxh3")
    buffer = whole if rows_first else whole.t()
    full = packed.fingerprints([buffer]).clone()
    buffer.untyped_storage().resize_(0)
    assert torch.equal(packed.fingerprints([buffer]), PackedReader("xxh3").fingerprints([torch.empty(0)]))
    buffer.untyped_storage().resize_(4 * whole.numel())
    buffer.fill_(1)
    assert torch.equal(packed.fingerprints([buffer]), full)


@pytest.mark.usefixtures("guards")
def test_tensors_that_have_moved_are_read_where_they_are_now() -> None:
    """Gradients that each backward allocates anew, beside weights that stay."""
    packed, weight = PackedReader("xxh3"), torch.ones(24, 24)
    for number in range(5):
        tensors = [weight, torch.full((24,), float(number)), torch.full((300, 300), float(number)).t()]
        fresh = PackedReader("xxh3")
        assert torch.equal(packed.fingerprints(tensors), fresh.fingerprints(tensors))
        assert packed.samples(tensors) == fresh.samples(tensors)

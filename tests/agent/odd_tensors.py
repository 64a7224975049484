"""Reads tensors of many kinds as the agent does and prints their fingerprints: a rank that reads where no memory is dies."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map

from ddpdoctor.agent.inside.tensors.fingerprint import digests
from ddpdoctor.agent.inside.tensors.packed_tensors import PackedReader

LARGE = 1 << 17


class Wrapper(Tensor):
    """A tensor that holds another one, as quantized weights do."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Any:
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def unwrapped(value: Any) -> Any:
            return value.inner if isinstance(value, Wrapper) else value

        found = func(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs or {}))
        return Wrapper(found) if func is torch.ops.aten.detach.default else found


class Closed(Wrapper):
    """One of which nothing can be read."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise ValueError(func)


class Named(Tensor):
    """A subclass with memory of its own, whose functions are the user's."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise ValueError(func)


def freed(count: int, begin: int = 0) -> Tensor:
    part = torch.arange(float(count))[begin:]
    part.untyped_storage().resize_(0)
    return part


def shortened() -> Tensor:
    whole = torch.arange(float(LARGE))
    whole.untyped_storage().resize_(64)
    return whole


def on_a_mesh() -> Tensor:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_tensor

    if not dist.is_initialized():
        dist.init_process_group("fake", rank=0, world_size=2)
    return distribute_tensor(torch.arange(8.0), init_device_mesh("cpu", (2,)), src_data_rank=None)


def line(count: int = 4) -> Tensor:
    return torch.arange(float(count)) + 1


def complex_line() -> Tensor:
    return torch.complex(line(), line())


# the tensor, and one of the same bytes that is plain; None where there are none to be read
ODD: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor] | None]] = {
    "wrapper": (lambda: Wrapper(line()), line),
    "wrapper, large": (lambda: Wrapper(line(LARGE)), lambda: line(LARGE)),
    "wrapper as a parameter": (lambda: torch.nn.Parameter(Wrapper(line())), line),
    "closed wrapper": (lambda: Closed(line()), None),
    "subclass with memory": (lambda: line().as_subclass(Named), line),
    "subclass with memory, large": (lambda: line(LARGE).as_subclass(Named), lambda: line(LARGE)),
    "DTensor": (on_a_mesh, None),
    "fake": (lambda: FakeTensorMode().from_tensor(line()), None),
    "fake, large": (lambda: FakeTensorMode().from_tensor(line(LARGE)), None),
    "zeros without memory": (lambda: torch._efficientzerotensor((4,)), lambda: torch.zeros(4)),
    "freed": (lambda: freed(4), None),
    "freed, large": (lambda: freed(LARGE), None),
    "freed, with an offset": (lambda: freed(LARGE, 50_000), None),
    "freed, small with an offset": (lambda: freed(4, 2), None),
    "shortened": (shortened, None),
    "not yet initialized": (lambda: torch.nn.UninitializedParameter(), None),
    "meta": (lambda: line().to("meta"), None),
    "nested": (lambda: torch.nested.nested_tensor([line(2), line(3)]), lambda: torch.cat([line(2), line(3)])),
    "nested, jagged": (lambda: torch.nested.nested_tensor([line(2), line(3)], layout=torch.jagged), None),
    "conj": (lambda: complex_line().conj(), lambda: complex_line().conj().resolve_conj()),
    "neg": (lambda: complex_line().conj().imag, lambda: -line()),
    "expanded": (lambda: line().expand(3, 4), lambda: line().repeat(3)),
    "not contiguous": (lambda: line(8)[::2], lambda: line(8)[::2].clone()),
    "bits": (lambda: line().view(torch.uint8).view(torch.bits8), line),
    "zero-size": (lambda: torch.empty(0, 3), lambda: torch.empty(0)),
    "zero-size of a freed one": (lambda: freed(4, 4), lambda: torch.empty(0)),
    "coo": (lambda: torch.eye(3).to_sparse(), lambda: torch.eye(3).to_sparse()),
    "csr": (lambda: torch.eye(3).to_sparse_csr(), lambda: torch.eye(3).to_sparse_csr()),
    "quantized": (
        lambda: torch.quantize_per_tensor(line(), 0.5, 0, torch.qint8),
        lambda: torch.quantize_per_tensor(line(), 0.5, 0, torch.qint8).int_repr(),
    ),
}


def read(what: str, method: Any) -> dict[str, Any]:
    """Whether the fingerprints are those of a plain tensor of the same bytes, beside those of a plain tensor."""
    make, same = ODD[what]
    plain = torch.empty(0) if same is None else same()
    packed = PackedReader(method)
    packed.fingerprints([torch.arange(10.0)])
    lists = [[torch.arange(10.0), make()], [torch.arange(10.0), plain]]
    found = []
    for tensors in lists:
        found.append([packed.fingerprints(tensors).tolist(), packed.fingerprints(tensors).tolist()])
        packed.samples(tensors)
        packed.parities(tensors)
    apart = [digests([*tensors, torch.ones(2)], method).tolist() for tensors in lists]
    return {"once": found[0][0] == found[1][0], "again": found[0][1] == found[1][1], "apart": apart[0] == apart[1]}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:]:
        try:
            found: Any = {method: read(name, method) for method in ("xxh3", "linear")}
        except (RuntimeError, TypeError, ValueError, AssertionError) as error:
            found = repr(error)
        print(json.dumps([name, found]), flush=True)

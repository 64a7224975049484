"""The size of a tensor is read from the call that makes it, where whole numbers decide it and nothing changes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.source.stack_lines.call_sizes import size_argument

CALL = "    dist.all_reduce(x)\n"


def read(folder: Path, text: str, op: str = "all_reduce") -> tuple[tuple[int, ...] | None, bool] | None:
    """The size on rank 1 of the tensor of the call in the last line, and whether it varies; None where it is not known."""
    path = folder / "train.py"
    path.write_text(text)
    found = size_argument(str(path), len(text.splitlines()), op)
    return None if found is None else (found.value({"n": 4, "rank": 1}, 1), found.varies)


@pytest.mark.parametrize(
    ("maker", "size"),
    [
        ("torch.zeros(n)", (4,)),
        ("torch.ones(n + rank, 2)", (5, 2)),
        ("torch.randn((n, n * 2))", (4, 8)),
        ("torch.empty([3], device=d)", (3,)),
        ("torch.full((n,), 2.0).to(d)", (4,)),
        ("torch.zeros(size=(n,), dtype=torch.float)", (4,)),
        ("torch.zeros(m)", None),
        ("torch.zeros(n - 9)", None),
    ],
)
def test_the_size(tmp_path: Path, maker: str, size: tuple[int, ...] | None) -> None:
    assert read(tmp_path, f"def f(n, rank):\n    x = {maker}\n{CALL}") == (size, False)
    assert read(tmp_path, f"def f(n, rank):\n    dist.all_reduce({maker})\n") == (size, False)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("    x = torch.zeros(len(items))\n", id="another function"),
        pytest.param("    x = torch.zeros(*sizes)\n", id="hidden"),
        pytest.param("    x = make(n)\n", id="another maker"),
        pytest.param("    if n:\n        x = torch.zeros(n)\n", id="on one way"),
        pytest.param("    x = torch.zeros(n)\n    x = torch.cat([x, x])\n", id="another tensor"),
        pytest.param("    x = torch.zeros(n)\n    n = 9\n", id="a variable has changed"),
        pytest.param("    x, y = torch.zeros(n), 1\n", id="unpacked"),
    ],
)
def test_nothing_is_read_of(tmp_path: Path, before: str) -> None:
    assert read(tmp_path, f"def f(n, rank):\n{before}{CALL}") is None


def test_a_tensor_of_an_earlier_turn_tells_nothing(tmp_path: Path) -> None:
    loop = "def f(n, rank):\n    for n in sizes:\n"
    assert read(tmp_path, f"{loop}        x = torch.zeros(n)\n    {CALL}") == ((4,), True)
    assert read(tmp_path, f"def f(n, rank):\n    x = torch.zeros(n)\n    for n in sizes:\n    {CALL}") is None
    assert read(tmp_path, f"def f(n, rank):\n    x = torch.zeros(n)\n    while True:\n    {CALL}") is None


def test_the_last_tensor_in_front_of_the_call_counts(tmp_path: Path) -> None:
    before = "def f(n, rank):\n    x = torch.zeros(9)\n    while True:\n"
    assert read(tmp_path, f"{before}        x = torch.zeros(n)\n    {CALL}") == ((4,), False)
    assert read(tmp_path, f"{before}        x = torch.zeros(n)\n        if n:\n            x = y\n    {CALL}") is None
    assert read(tmp_path, f"{before}        if n:\n            x = torch.zeros(n)\n    {CALL}") is None


def test_ranks_may_gather_tensors_of_different_sizes(tmp_path: Path) -> None:
    assert read(tmp_path, "def f(n, rank):\n    dist.all_gather(out, torch.zeros(n))\n", "all_gather") is None

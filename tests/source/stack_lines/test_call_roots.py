"""The root of a call is read from its expression, where whole numbers decide it and no loop changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.source.stack_lines.call_roots import root_argument


def read(folder: Path, text: str, op: str = "broadcast") -> tuple[list[int | None], bool] | None:
    """The root on ranks 0 to 2 of the call in the last line, and whether it varies; None where it gives none."""
    path = folder / "train.py"
    path.write_text(text)
    found = root_argument(str(path), len(text.splitlines()), op)
    return (
        None if found is None else ([found.value({"rank": rank, "world": 3}, rank) for rank in range(3)], found.varies)
    )


@pytest.mark.parametrize(
    ("argument", "roots"),
    [
        ("0", [0, 0, 0]),
        ("src=1 if rank == 2 else 0", [0, 0, 1]),
        ("src=rank", [0, 1, 2]),
        ("group_src=(dist.get_rank() + 1) % world", [1, 2, 0]),
        ("src=world - 1 if rank > 0 else rank // 0", [None, 2, 2]),
        ("src=rank * world % 3", [0, 0, 0]),
        ("src=rank**world", [None] * 3),
        ("src=first", [None] * 3),
    ],
)
def test_the_root_on_each_rank(tmp_path: Path, argument: str, roots: list[int | None]) -> None:
    assert read(tmp_path, f"def f(rank, world):\n    dist.broadcast(x, {argument})\n") == (roots, False)


def test_a_root_that_a_loop_changes_varies(tmp_path: Path) -> None:
    assert read(tmp_path, "for rank in range(3):\n    dist.broadcast(x, rank)\n") == ([0, 1, 2], True)
    assert read(tmp_path, "while True:\n    rank = (rank + 1) % 3\n    dist.broadcast(x, rank)\n") == ([0, 1, 2], True)
    assert read(tmp_path, "for step in range(3):\n    dist.broadcast(x, rank)\n") == ([0, 1, 2], False)


def test_two_calls_at_one_line_or_none_tell_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "dist.broadcast(x, 0), dist.broadcast(y, 1)\n") is None
    assert read(tmp_path, "dist.broadcast(x)\n") is None
    assert read(tmp_path, "dist.reduce(x, 0)\n") is None
    assert read(tmp_path, "dist.broadcast(x, 0\n") is None
    assert read(tmp_path, "dist.gather(x, out, 2)\n", "gather") == ([2, 2, 2], False)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("dist.broadcast(x, src=0, group=tensor_parallel)", id="another group"),
        pytest.param("dist.broadcast(x, 0, tensor_parallel)", id="by its place"),
        pytest.param("dist.broadcast(x, **given)", id="hidden"),
        pytest.param("self.stage.broadcast(x, src=0)", id="of an object"),
        pytest.param("dist.broadcast(x, src=owner(rank))", id="another function"),
        pytest.param("dist.broadcast(x, src=dist.get_rank(group=g))", id="the rank in another group"),
        pytest.param("dist.broadcast(x, src=dist.get_rank(g))", id="the rank in another group, by its place"),
        pytest.param(f"dist.broadcast(x, src={'+'.join(['rank'] * 1200)})", id="many terms"),
        pytest.param(f"dist.broadcast(x, src=a{'.b' * 900}())", id="many attributes"),
        pytest.param(f"dist.broadcast(x, src=rank{'//1' * 40})", id="more terms than a root has"),
    ],
)
def test_what_may_follow_from_anything_else_is_no_root(tmp_path: Path, call: str) -> None:
    assert read(tmp_path, f"def f(rank):\n    {call}\n") is None


def test_a_variable_is_the_rank_by_its_name_or_its_value(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("me = dist.get_rank()\ndist.broadcast(x, src=(me + step) % 3)\ndist.broadcast(x, src=rank)\n")
    found = root_argument(str(path), 2, "broadcast")
    assert found is not None
    assert (found.names, found.ranks) == ({"me", "step"}, {"me"})
    path.write_text("for rank in range(3):\n    share(rank)\ndef share(rank):\n    dist.broadcast(x, src=rank)\n")
    found = root_argument(str(path), 4, "broadcast")
    assert found is not None
    assert (found.names, found.ranks) == ({"rank"}, set())

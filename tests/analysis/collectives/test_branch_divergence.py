"""In one turn of all loops, what two functions or two branches called tells which ranks differ, also where all spin later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.stacks import CountedLoop
from ddpdoctor.source.stack_lines.context import source_of
from tests.hangs import hang, rank

IMPORTS = "import torch, torch.distributed as dist\n"


def said(
    folder: Path, text: str, lines: tuple[tuple[tuple[int, str], ...], ...], turns: tuple[int, ...] = (4, 4, 4)
) -> list[object]:
    """What is said of ranks that spin at these lines, outermost first, in these turns of the loop around the first."""
    path = folder / "train.py"
    path.write_text(IMPORTS + text)
    ways = [tuple(Frame(file=str(path), line=line, function=name) for line, name in way[::-1]) for way in lines]
    code = source_of([frame for way in ways for frame in way])
    assert code is not None
    loop = text.split("\n").index("    for step in range(9):") + 2
    ranks = []
    for way, turn in zip(ways, turns, strict=True):
        stands, *state = rank(way, active=True, cpu_share=1.0)
        ranks.append((replace(stands, turns=(CountedLoop(frame=0, loop=loop, turn=turn),)), *state))
    findings = diagnose(hang(*ranks, facts=(code,), seconds=None)).findings
    return [(one.code, one.ranks, [where.line for where in one.where]) for one in findings]


TWO = """def first(x):
    {0}dist.all_gather(out, x)
    dist.all_reduce(x)
    return x.item()
def second(x):
    dist.all_reduce(x)
    dist.all_gather(out, x)
    return x.item()
def main(sync):
    for step in range(9):
        sync(x)
"""
SIDES = (((12, "main"), (9, "second")), ((12, "main"), (9, "second")), ((12, "main"), (5, "first")))


def test_two_functions_that_one_line_calls_have_their_calls_in_another_order(tmp_path: Path) -> None:
    assert said(tmp_path, TWO.format(""), SIDES) == [("DDP301", (2,), [3, 7, 7])]
    assert said(tmp_path, TWO.format(""), SIDES, (4, 4, 5)) == []
    assert said(tmp_path, TWO.format("prepare(x); "), SIDES) == []  # which may call what the others call first
    assert said(tmp_path, TWO.format("").replace("(x)\n    dist.all_g", "(x, group=g)\n    dist.all_g"), SIDES) == []


def branches(body: str) -> str:
    return f"def main(rank):\n    for step in range(9):\n{body}        x.item()\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "        if rank == 2:\n            dist.all_gather(out, x)\n        else:\n            dist.all_reduce(x)\n",
            [("DDP301", (2,), [5, 7, 7])],
            id="two calls",
        ),
        pytest.param(
            "        if rank == 2:\n            print(x)\n            dist.all_reduce(x, async_op=True)\n",
            [("DDP305", (2,), [6, 7, 7])],
            id="one call too many",
        ),
        pytest.param(
            "        if rank != 2:\n            dist.all_reduce(x)\n",
            [("DDP305", (2,), [6, 5, 5])],
            id="one call left out",
        ),
        pytest.param(
            "        if rank == 2:\n            dist.all_reduce(x)\n        if rank != 2:\n            dist.all_reduce(x)\n",
            [],
            id="all call it",
        ),
        pytest.param(
            "        if rank == 2:\n            dist.all_reduce(x)\n        else:\n            take_part(x)\n",
            [],
            id="in a helper",
        ),
        pytest.param("        if step == 2:\n            dist.all_reduce(x)\n", [], id="no test of the rank"),
        pytest.param(
            "        if rank == 2 and late():\n            dist.all_reduce(x)\n", [], id="not of the rank alone"
        ),
        pytest.param("        if rank == 2:\n            dist.all_reduce(x, group=g)\n", [], id="another group"),
        pytest.param("        if rank == 2:\n            dist.broadcast(x, 2)\n", [], id="a root may go on"),
        pytest.param(
            "        for part in parts:\n            if rank == 2:\n                dist.all_reduce(x)\n",
            [],
            id="in a loop",
        ),
    ],
)
def test_a_test_of_the_rank_that_all_have_passed_tells_what_each_called(
    tmp_path: Path, body: str, expected: list[object]
) -> None:
    text = branches(body)
    at = ((text.count("\n") + 1, "main"),)
    assert said(tmp_path, text, (at, at, at)) == expected
    assert said(tmp_path, text, (at, at, at), (4, 3, 4)) == []

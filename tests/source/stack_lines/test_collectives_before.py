"""Which collectives a function has called when it comes to a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import EarlierCall
from ddpdoctor.source.stack_lines.context import source_of

JOB = """\
from torch import distributed as dist
from torch.distributed import broadcast
from functools import reduce
def mean(parts, rank):
    total = reduce(add, parts)
    dist.all_reduce(total)
    if rank == 0:
        dist.barrier()
        print(total.item())
    for part in parts:
        broadcast(part, 0)
        part.item()
    print(total.item())
    dist.barrier()
"""
ALL_REDUCE = EarlierCall(line=6, op="all_reduce")


@pytest.mark.parametrize(
    ("line", "before"),
    [
        (5, ()),
        (9, (ALL_REDUCE, EarlierCall(line=8, op="barrier"))),
        (12, (EarlierCall(line=11, op="broadcast"),)),  # of this turn of the loop
        (13, (ALL_REDUCE,)),
    ],
)
def test_every_way_to_the_line_passes_them(tmp_path: Path, line: int, before: tuple[EarlierCall, ...]) -> None:
    path = tmp_path / "train.py"
    path.write_text(JOB)
    code = source_of([Frame(file=str(path), line=line, function="mean")])
    assert code is not None
    assert code.places[0].collectives == before

"""Ranks whose stacks stand in two branches of a test, or in two functions with calls of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import CodePlace, Condition, SourceCode
from ddpdoctor.source.stack_lines.context import source_of
from tests.hangs import C10D, SCRIPT, hang, rank, stack


@pytest.mark.parametrize(
    ("test", "one", "other", "code"),
    [
        pytest.param("rank == 2", "all_gather", "all_reduce", "DDP301", id="two branches of a test of the rank"),
        pytest.param("step % 10 == 0", "all_gather", "all_reduce", "DDP301", id="no rank comes out of either alone"),
        pytest.param("rank == 2", "broadcast", "all_reduce", None, id="a root may have come through a broadcast"),
        pytest.param("rank == 2", "all_reduce", "all_reduce", None, id="they meet"),
    ],
)
def test_two_branches_of_a_test_of_the_rank_call_different_collectives(
    test: str, one: str, other: str, code: str | None
) -> None:
    places = (
        *(
            CodePlace(
                file=SCRIPT,
                line=line,
                function="train_step",
                conditions=(Condition(line=60, test=test, branch=branch),),
            )
            for branch, line in enumerate((61, 63))
        ),
        CodePlace(file=SCRIPT, line=90, function="<module>"),
    )
    calls = C10D
    odd = rank(stack((calls, 3300, one), user=(61, "train_step")))
    usual = rank(stack((calls, 2900, other), user=(63, "train_step")))
    report = diagnose(hang(odd, usual, usual, facts=(SourceCode(places=places),), seconds=None))
    found = next((one for one in report.findings if one.code == "DDP301"), None)
    assert (found.code if found else None) == code
    if found is not None:
        assert found.ranks == (0,)
        assert found.message == "rank 0 waits in all_gather while ranks 1-2 wait in all_reduce"
        under = ", inside `if rank == 2` (train.py:60)" if test.startswith("rank") else ""
        assert found.where[0].note == f"waiting in all_gather{under}"


def test_branches_with_groups_of_their_own_are_no_mismatch(tmp_path: Path) -> None:
    """The ranks of each branch wait in a group of their own."""

    def found(first: str, second: str) -> set[str]:
        path = tmp_path / "roles.py"
        path.write_text(f"def main(x, rank):\n    if rank < 2:\n        {first}\n    else:\n        {second}\n")
        calls = C10D
        stacks = [
            (Frame(file=calls, line=3000, function=name), Frame(file=str(path), line=line, function="main"))
            for line, name in ((3, "all_reduce"), (5, "all_gather"))
            for _ in range(2)
        ]
        code = source_of([frame for stack in stacks for frame in stack])
        assert code is not None
        return {one.code for one in diagnose(hang(*map(rank, stacks), facts=(code,), seconds=None)).findings}

    assert "DDP301" in found("dist.all_reduce(x)", "dist.all_gather(out, x)")
    assert not found("dist.all_reduce(x, group=groups[0])", "dist.all_gather(out, x, group=groups[1])")
    assert not found("dist.all_reduce(x)", "dist.all_gather(out, x, stage)")
    assert not found("all_reduce(x, tp_group)", "dist.all_gather(out, x)")


GROUPS = """def mean(x, rank):
    dist.all_reduce(x, group=node)
    if {test}:
        dist.all_reduce(x, group=leaders)
    dist.broadcast(x, src=first, group=node)
def run(x, rank):
    for epoch in range(3):
        mean(x, rank)
        dist.all_gather_object(names, x)
"""


@pytest.mark.parametrize(
    ("test", "last", "code"),
    [
        ("rank == 0", "all_gather_object", "DDP305"),
        ("rank % 2 == 0", "all_gather_object", None),  # rank 2 has left it out, or has gone on from it
        ("rank == 0", "all_reduce", None),  # which it may be
    ],
)
def test_a_test_that_selects_the_ranks_that_wait_below_it_tells_of_several_places(
    tmp_path: Path, test: str, last: str, code: str | None
) -> None:
    """Rank 1 waits for rank 0 in their node, ranks 2-3 for both: no other rank ever comes to the call of rank 0."""
    path = tmp_path / "groups.py"
    path.write_text(GROUPS.format(test=test).replace("all_gather_object", last))

    def at(name: str, *lines: tuple[int, str]) -> tuple[Frame, ...]:
        places = (Frame(file=str(path), line=line, function=function) for line, function in lines)
        return (Frame(file=C10D, line=3000, function=name), *places)

    ways = (at("all_reduce", (4, "mean"), (8, "run")), at("broadcast", (5, "mean"), (8, "run")), at(last, (9, "run")))
    source = source_of([frame for way in ways for frame in way])
    assert source is not None
    found = diagnose(hang(*map(rank, (*ways, ways[2])), facts=(source,), seconds=None)).findings
    assert [(one.code, one.ranks) for one in found] == ([(code, (0,))] if code else [])


HOOKS = """def wait(x):
    {}
def mean(x):
    dist.all_reduce(x{})
class Save:
    def after_epoch(self, x):
        wait(x)
class Log:
    def after_epoch(self, x):
        mean(x)
def run(x, hooks):
    while True:
        for hook in hooks:
            hook.after_epoch(x)
"""


@pytest.mark.parametrize(
    ("call", "group", "found"),
    [
        ("dist.barrier()", "", [("DDP301", (2,), [10, 10, 7])]),
        ("dist.barrier()", ", group=g", []),
        ("dist.broadcast(x, 0)", "", []),  # its root may have come out of it
        ("dist.all_reduce(x)", "", []),
    ],
)
def test_ranks_in_two_calls_that_no_rank_comes_out_of_alone_have_called_other_things(
    tmp_path: Path, call: str, group: str, found: list[object]
) -> None:
    """Whatever hooks the ranks have, and in whatever turn they are; shown is where their ways part."""
    path = tmp_path / "hooks.py"
    path.write_text(HOOKS.format(call, group))
    (name,) = [word for word in ("barrier", "broadcast", "all_reduce") if word in call]

    def at(operation: str, *lines: tuple[int, str]) -> tuple[Frame, ...]:
        places = (Frame(file=str(path), line=line, function=function) for line, function in (*lines, (14, "run")))
        return (Frame(file=C10D, line=3000, function=operation), *places)

    logs, saves = at("all_reduce", (4, "mean"), (10, "after_epoch")), at(name, (2, "wait"), (7, "after_epoch"))
    source = source_of([*logs, *saves])
    assert source is not None
    report = diagnose(hang(rank(logs), rank(logs), rank(saves), facts=(source,), seconds=None))
    lines = {one.code: {where.rank: where.line for where in one.where} for one in report.findings}
    assert [(one.code, one.ranks, [lines[one.code][at] for at in range(3)]) for one in report.findings] == found

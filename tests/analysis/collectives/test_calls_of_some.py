"""Ranks that wait behind calls of other lines that were paired: the source tells which rank made a call of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, Loop, Request, SourceCode
from ddpdoctor.workflows.lint_hints import collectives_of_some
from tests.hangs import C10D, IN_BACKWARD, SCRIPT, hang, rank, stack

PLACES = (
    CodePlace(file=SCRIPT, line=23, function="synchronize"),
    CodePlace(file=SCRIPT, line=24, function="synchronize"),
)
BARRIER = stack((C10D, 5356, "barrier"), user=(23, "synchronize"))
SUM = stack((C10D, 3252, "all_reduce"), user=(24, "synchronize"))


def made(test: str) -> Request:
    """A barrier under this test."""
    condition = Condition(line=49, test=test, branch=0, by_rank=True)
    return Request(
        file=SCRIPT, line=50, function="save", text="dist.barrier()", wants="collective", conditions=(condition,)
    )


def blamed(*requests: Request, waits: str) -> tuple[str, tuple[int, ...], set[int]] | None:
    """The first finding about ranks that wait in the barrier or the sum: code, ranks and lines; None without one."""
    ranks = [rank({"b": BARRIER, "s": SUM}[letter]) for letter in waits]
    found = diagnose(hang(*ranks, facts=(SourceCode(places=PLACES, requests=requests),))).findings
    return (found[0].code, found[0].ranks, {where.line for where in found[0].where}) if found else None


@pytest.mark.parametrize(
    ("test", "waits", "ranks"),
    [
        ("is_main()", "bss", (0,)),
        ("is_main()", "bs", (0,)),
        ("rank == 2", "ssb", (2,)),
        ("rank != 2", "bbs", (2,)),  # it left the call out
    ],
)
def test_the_call_that_a_test_of_the_rank_leaves_to_one_side_is_the_cause(
    test: str, waits: str, ranks: tuple[int, ...]
) -> None:
    assert blamed(made(test), waits=waits) == ("DDP305", ranks, {23, 24, 50})


@pytest.mark.parametrize(
    ("requests", "waits"),
    [
        ((), "bss"),
        ((made("is_main()"), replace(made("rank == 1"), line=80)), "bss"),  # one of two calls
        ((made("rank == 1"),), "bss"),  # rank 1 waits beside rank 2
        ((made("rank in chosen"),), "bss"),
    ],
    ids=["no call", "two calls", "another side", "ranks not known"],
)
def test_it_is_not_where_it_does_not_explain_who_waits_beside_whom(requests: tuple[Request, ...], waits: str) -> None:
    found = blamed(*requests, waits=waits)
    assert found is None or 50 not in found[2]


def test_a_test_whose_name_does_not_tell_selects_the_ranks_that_the_file_says() -> None:
    request = made("self.main")
    (condition,) = request.conditions
    told = replace(request, conditions=(replace(condition, selects="rank == 0"),))
    assert blamed(told, waits="bss") == ("DDP305", (0,), {23, 24, 50})
    assert blamed(request, waits="bss") != ("DDP305", (0,), {23, 24, 50})


def behind_a_loop(*requests: Request, jumps: tuple[Jump, ...] = ()) -> tuple[str, set[int]]:
    """Rank 0 waits in a barrier behind the loop in which its peers are: the code of the finding, and its lines."""
    loop = Loop(line=58, head="for batch in loader", jumps=jumps)
    places = (
        CodePlace(file=SCRIPT, line=61, function="train_step", loops=(loop,)),
        CodePlace(file=SCRIPT, line=70, function="train_step"),
    )
    barrier = stack((C10D, 5356, "barrier"), user=(70, "train_step"))
    ranks = rank(barrier), rank(IN_BACKWARD), rank(IN_BACKWARD)
    first = diagnose(hang(*ranks, facts=(SourceCode(places=places, requests=requests),))).findings[0]
    assert first.ranks == (0,)
    return first.code, {where.line for where in first.where}


def test_a_rank_behind_a_loop_that_alone_makes_a_call_has_not_left_the_loop_early() -> None:
    """Its call met the barrier of its peers, which went on to their next epoch."""
    assert behind_a_loop(made("is_main()")) == ("DDP305", {50, 70, 61})
    assert behind_a_loop() == ("DDP306", {70, 61})
    assert behind_a_loop(made("rank == 1"))[0] == "DDP306"


def test_it_may_have_left_the_loop_by_a_statement_under_a_test_of_the_rank() -> None:
    for_rank_0 = Jump(line=65, word="break", test="accuracy > 0.9 and rank == chosen", by_rank=True)
    assert behind_a_loop(made("is_main()"), jumps=(for_rank_0,)) == ("DDP306", {65, 70, 61})
    for_all = replace(for_rank_0, test="accuracy > 0.9", by_rank=False)
    assert behind_a_loop(made("is_main()"), jumps=(for_all,))[0] == "DDP305"
    skips = replace(for_rank_0, word="continue")
    assert behind_a_loop(made("is_main()"), jumps=(skips,))[0] == "DDP305"


def test_lint_finds_the_call(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "import torch.distributed as dist\n"
        "def save():\n"
        "    if dist.get_rank() == 0:\n"
        "        dist.barrier()\n"
        "dist.init_process_group()\n"
        "save()\n"
    )
    (found,) = collectives_of_some([str(path)])
    assert (found.line, found.function, found.text, found.wants) == (4, "save", "dist.barrier()", "collective")
    assert [condition.test for condition in found.conditions] == ["dist.get_rank() == 0"]

"""Groups of all ranks are used in one order: a call that a rank left out, or a loop that it left, shows in that order."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.source import CodePlace, Condition, Loop
from ddpdoctor.model import Finding
from tests.flight_records import TRAIN, Did, flights, waits

EXCHANGE = Did("all_to_all", line=70, group="1")
SAVE = Did("barrier", line=80)
METRIC = Did("all_reduce", line=90, group="2")
BEST = Condition(line=79, test="score > best", branch=0)
BATCHES = Loop(line=68, head="for batch in loader")
EPOCHS = Loop(line=60, head="for epoch in range(3)")


def found(
    rank_1: list[Did], others: list[Did], *, condition: Condition | None = None, loop: Loop | None = None
) -> Finding:
    evidence = flights(
        others,
        rank_1,
        others,
        backend="gloo",
        code=(
            CodePlace(
                file=TRAIN, line=70, function="train_step", loops=(EPOCHS, *((loop,) if loop is not None else ()))
            ),
            CodePlace(
                file=TRAIN, line=80, function="train_step", loops=(EPOCHS,),
                conditions=(condition,) if condition is not None else (),
            ),
            CodePlace(file=TRAIN, line=90, function="train_step", loops=(EPOCHS,)),
            CodePlace(file=TRAIN, line=100, function="main"),
        ),
    )  # fmt: skip
    return diagnose(evidence).findings[0]


def test_a_call_of_one_group_that_a_rank_left_out_is_no_order_of_groups() -> None:
    """`if score > best: save()` with a barrier of all, before the next exchange in a group of the program's own."""
    epoch = [EXCHANGE, METRIC, SAVE]
    first = found([*epoch, EXCHANGE, METRIC, waits(EXCHANGE)], [*epoch, EXCHANGE, METRIC, waits(SAVE)], condition=BEST)
    assert (first.code, first.ranks) == ("DDP305", (1,))
    assert first.message == (
        "rank 1 never called barrier #6 of group 0+1+2 that ranks 0,2 call: the next that it called was all_to_all #6 of group "
        "0+1+2"
    )
    assert "inside `if score > best` (train.py:79)" in first.where[0].note


def test_a_rank_that_left_the_loop_in_which_the_others_use_another_group_is_named_so() -> None:
    first = found([METRIC, EXCHANGE, waits(METRIC)], [METRIC, EXCHANGE, waits(EXCHANGE)], loop=BATCHES)
    assert (first.code, first.ranks) == ("DDP306", (1,))


def test_without_a_condition_or_a_loop_between_the_calls_it_is_the_order_of_the_groups() -> None:
    assert found([EXCHANGE, waits(METRIC)], [EXCHANGE, waits(SAVE)]).code == "DDP312"


def test_calls_that_were_made_in_other_orders_before_are_not_put_into_one() -> None:
    """Calls of several threads: their order is chance."""
    mixed = [EXCHANGE, METRIC, EXCHANGE, waits(METRIC)]
    assert found(mixed, [METRIC, EXCHANGE, EXCHANGE, waits(EXCHANGE)], loop=BATCHES).code == "DDP312"


def test_of_groups_of_other_ranks_the_order_is_not_known() -> None:
    own = replace(EXCHANGE, members=(0, 1))
    evidence = flights([own, waits(own)], [own, waits(METRIC)], [waits(METRIC)], backend="nccl")
    assert all("+" not in one.message for one in diagnose(evidence).findings)

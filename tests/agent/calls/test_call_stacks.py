"""Stacks are known again by one walk, and never taken for one another."""

from __future__ import annotations

import gc
import sys

import pytest

from ddpdoctor.agent.inside.calls import call_stacks
from ddpdoctor.agent.inside.calls.call_stacks import MOST_STACKS, KnownStacks, Stack


def called_from_two_lines(stacks: KnownStacks) -> list[Stack]:
    return [
        stacks.of(sys._getframe()),
        stacks.of(sys._getframe()),
    ]


def test_a_stack_is_the_same_one_from_the_same_lines_only() -> None:
    stacks = KnownStacks()
    first, again = [called_from_two_lines(stacks) for _ in range(2)]
    assert [id(one) for one in first] == [id(one) for one in again]
    assert first[0] is not first[1]
    other_caller = called_from_two_lines(stacks)
    assert other_caller[0] is not first[0]
    assert [code.co_name for code, _ in other_caller[0].lines[:2]] == [
        "called_from_two_lines", "test_a_stack_is_the_same_one_from_the_same_lines_only",
    ]  # fmt: skip


def test_code_that_is_made_anew_at_every_step_is_never_taken_for_what_was_at_its_address() -> None:
    stacks, seen = KnownStacks(), []
    for number in range(200):
        names = {"sys": sys, "stacks": stacks}
        exec(f"def step_{number}():\n    return stacks.of(sys._getframe())", names)
        stack = names[f"step_{number}"]()  # type: ignore[operator]
        seen.append((number, stack.lines[0][0].co_name))
        del names, stack
        gc.collect(0)
    assert seen == [(number, f"step_{number}") for number in range(200)]


def test_only_so_many_stacks_and_frames_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_stacks, "MOST_STACKS", 3)
    stacks = KnownStacks()
    for _ in range(5):
        exec("stacks.of(sys._getframe())", {"sys": sys, "stacks": stacks})
    assert len(stacks._met) <= 3 < MOST_STACKS

    def deep(left: int) -> Stack:
        return deep(left - 1) if left else stacks.of(sys._getframe())

    assert len(deep(400).lines) == call_stacks.MOST_FRAMES

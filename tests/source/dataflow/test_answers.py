"""What is known of a ring of questions does not depend on which of them was asked first."""

from __future__ import annotations

import itertools

import pytest

from ddpdoctor.evidence.code_values import Kind, Origin
from ddpdoctor.source.dataflow.answers import Answers
from ddpdoctor.source.dataflow.origins import MOST_ORIGINS, joined

RING = {"a": ("b", "c"), "b": ("a", "d"), "c": ("b",), "d": ("d", "c")}
"""By question, the others that its answer is made of; each answer also holds its own name."""


def reached(answers: Answers[frozenset[str]], question: str) -> frozenset[str]:
    def find() -> frozenset[str]:
        return frozenset({question}).union(*(reached(answers, other) for other in RING[question]))

    return answers.whole.get(question) or answers.ask(question, find) or frozenset()


@pytest.mark.parametrize("order", [*itertools.permutations(RING)], ids="".join)
def test_every_order_of_questions_gives_the_same_answers(order: tuple[str, ...]) -> None:
    answers = Answers[frozenset[str]]()
    assert [reached(answers, question) for question in order] == [frozenset("abcd")] * 4


def test_an_answer_with_a_gap_says_so() -> None:
    answers = Answers[str]()

    def outer() -> str:
        inner, whole = answers.watch(lambda: answers.ask("outer", outer))
        assert (inner, whole) == (None, False)
        return "found"

    assert answers.watch(lambda: answers.ask("outer", outer)) == ("found", True)
    assert answers.whole == {"outer": "found"}


def test_an_answer_with_a_gap_is_not_whole() -> None:
    answers = Answers[str]()

    def outer() -> str:
        answers.ask("inner", lambda: answers.ask("outer", outer) or "half")
        assert (answers.ask("inner", str), answers.whole.get("inner")) == ("half", None)
        return "found"

    answers.ask("outer", outer)
    assert answers.whole == {"outer": "found"}


def test_many_alternatives_of_one_sort_leave_room_for_others() -> None:
    batches = [Origin(kind=Kind.LOCAL, text=f"loader {number}", note="batch") for number in range(30)]
    forward = Origin(kind=Kind.LOCAL, text="model(x)", note="forward")
    assert joined([*batches, forward]) == (*batches[: MOST_ORIGINS - 1], forward)

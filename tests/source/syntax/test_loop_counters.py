"""Which name counts the turns of a loop."""

from __future__ import annotations

import ast

import pytest

from ddpdoctor.source.syntax.loop_counters import counter_of, turns_are_fixed
from ddpdoctor.source.syntax.walk import walk


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("for i, (images, labels) in enumerate(loader)", "i"),
        ("for k in range(100)", "k"),
        ("for k in range(first, 100)", "k"),
        ("for k in range(100, 0, -1)", ""),
        ("for step, images, labels in patient.batches()", "step"),
        ("for batch_idx, batch in loader_of(rank)", "batch_idx"),
        ("for label, image in digits()", ""),
        ("for images, labels in loader", ""),
        ("for step in steps", ""),
        ("while step < 10", ""),
    ],
)
def test_the_counter_of_a_loop(head: str, name: str) -> None:
    (loop,) = ast.parse(f"{head}: pass").body
    assert isinstance(loop, ast.For | ast.While)
    assert counter_of(loop) == name


FIXED = """
EPOCHS = 3
def train(given, rank):
    steps, later, more = 25, 9, 7
    count = 40
    later = given
    more += rank
    {head}: pass
"""


@pytest.mark.parametrize(
    ("head", "fixed"),
    [
        ("for _ in range(25)", True),
        ("for epoch in range(1, EPOCHS)", True),
        ("for _ in range(count)", True),
        ("for _ in range(given)", False),
        ("for _ in range(later)", False),
        ("for _ in range(more)", False),
        ("for _ in range(unknown)", False),
        ("for _ in range(len(shard))", False),
        ("for batch in loader", False),
        ("while count", False),
    ],
)
def test_whether_the_file_says_how_often_a_loop_turns(head: str, fixed: bool) -> None:
    scopes = walk(ast.parse(FIXED.format(head=head)), "train.py")
    ((loop, scope),) = [(loop, scope) for scope in scopes for loop in scope.loops]
    assert turns_are_fixed(loop.node, scope) is fixed

"""Which name counts the turns of a loop."""

from __future__ import annotations

import ast

import pytest

from ddpdoctor.source.syntax.loop_counters import counter_of


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

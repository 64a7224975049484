"""Texts and symptoms as people type them, each with the finding that should come first."""

from __future__ import annotations

from pathlib import Path

ASKED = [
    (text, code)
    for code, _, text in (
        line.partition(" ") for line in Path(__file__).with_name("asked.txt").read_text().splitlines()
    )
]
MEANINGLESS = (
    "hello world",
    "the quick brown fox",
    "lorem ipsum dolor sit amet",
    "how do I bake bread",
    "42",
    "?!",
)

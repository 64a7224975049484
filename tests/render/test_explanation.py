"""What `ddpdoctor explain TEXT` shows, on a terminal and in a file."""

from __future__ import annotations

from ddpdoctor.render.explanation import as_text
from ddpdoctor.render.screen import Screen
from ddpdoctor.workflows.explain import explain_text

MATCHES = explain_text("hangs in the first step")


def test_on_a_terminal_every_line_fits_and_no_word_is_lost() -> None:
    narrow = as_text(MATCHES, screen=Screen(width=80))
    assert max(map(len, narrow.splitlines())) <= 80
    assert narrow.split() == as_text(MATCHES).split()
    assert "\n   what to do: " in narrow


def test_in_a_file_each_sentence_stands_in_one_line() -> None:
    lines = as_text(MATCHES).splitlines()
    assert max(map(len, lines)) > 80
    assert sum(line.startswith("   shown by: ") for line in lines) == 5

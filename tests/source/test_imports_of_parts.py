"""Which files stay together is found by their imports, without parsing them."""

from __future__ import annotations

import time

import pytest

from ddpdoctor.source.parallel_reading import _imported

TEXTS = {
    "import a.b, c as d; import e": {"a.b", "c"},
    "from importlib import import_module": {"importlib", "importlib.import_module"},
    "from . import (one,  # import two\n    three)\nimport four": {".", ".one", ".three", "four"},
    "from a import b, \\\n    c\n": {"a", "a.b", "a.c"},
    "if x:\n    import a\n\tfrom .b import c": {"a", ".b", ".b.c"},
    "# import a\nprint('import b')\nimport_module('c')\nx = 1; import d": set(),
    "from a import (b\nimport c": {"a", "a.b", "a.import", "a.c"},
}
"""By text, what it may import: a parenthesis that nobody closes takes in what follows."""


@pytest.mark.parametrize("text", TEXTS)
def test_imports_are_found_in_text(text: str) -> None:
    assert _imported(text) == TEXTS[text]


def test_a_line_full_of_the_word_takes_no_longer_than_its_length() -> None:
    before = time.process_time()
    assert _imported("x import " * 200_000) == set()
    assert (
        time.process_time() - before < 20
    )  # half a second; with a search for the beginning of the line each time, hours

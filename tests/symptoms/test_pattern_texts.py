"""Regular expressions read as the texts that they find."""

from __future__ import annotations

import re

import pytest

from ddpdoctor.catalogue import all_rules
from ddpdoctor.symptoms.pattern_texts import texts_of


@pytest.mark.parametrize(
    ("regex", "texts"),
    [
        (
            r"failed to (?:bind|listen) on port \d+ now",
            ("failed to bind on port … now", "failed to listen on port … now"),
        ),
        (r"[Tt]oo many open files", ("Too many open files",)),
        (r"ncclSystemError|unhandled system error", ("ncclSystemError", "unhandled system error")),
        (r"(?P<call>ibv_\w+) failed(?!.*retrying)", ("ibv_… failed",)),
        (r"loss: \d+\.?\d*", ("loss: ….",)),
        (r"\d+", ()),
    ],
)
def test_alternatives_are_texts_and_what_varies_is_an_ellipsis(regex: str, texts: tuple[str, ...]) -> None:
    assert texts_of(regex) == texts


@pytest.mark.parametrize("rule", [rule for rule in all_rules() if rule.errors], ids=lambda rule: rule.code)
def test_every_error_text_of_a_rule_can_be_shown(rule) -> None:
    assert all(texts_of(error.regex) for error in rule.errors)


def test_a_text_without_an_ellipsis_is_found_by_its_own_expression() -> None:
    shown = [
        (error.regex, text)
        for rule in all_rules()
        for error in rule.errors
        for text in texts_of(error.regex)
        if "…" not in text
    ]
    assert len(shown) > 80
    lost = [(regex, text) for regex, text in shown if not re.search(regex.rstrip("\\b"), text) and text.isascii()]
    assert len(lost) < len(shown) // 4, lost

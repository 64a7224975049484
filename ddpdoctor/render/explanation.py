"""What a text can mean, for people and for machines, and the index page of all symptoms and error texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from ddpdoctor.model import Rule
from ddpdoctor.quoting import quoted
from ddpdoctor.render.screen import Screen
from ddpdoctor.symptoms.index import Match, MatchedBy, error_texts, sign_of
from ddpdoctor.symptoms.table import GROUPS

SCHEMA = "ddpdoctor.explanation/1"
SHOWN = 5  # findings; more than that is no answer
SHOWN_CHARACTERS = 200
_INTRODUCTION = """\
# Symptoms and error texts

What you see, and the findings that it can mean, the most frequent one first. `ddpdoctor explain "WHAT YOU SEE"` looks up a line,
a log or a symptom in this index and says what tells the findings apart. `ddpdoctor explain --index` prints this page.
"""


def as_text(matches: Sequence[Match], *, screen: Screen | None = None) -> str:
    """The first findings, each with what it was recognised by, what shows that it is this one, and what to do.

    On a `screen` with a width, lines break at the ends of words.
    """
    screen = screen or Screen()
    lines = ((Text(label), Text(quoted(body))) for label, body in _lines(matches))
    return screen.shown(line for label, body in lines for line in screen.hanging(label, body))


def _lines(matches: Sequence[Match]) -> Iterator[tuple[str, str]]:
    """Each line as what stands before it and what may be broken."""
    for number, match in enumerate(matches[:SHOWN], 1):
        rule = match.rule
        if match.by is MatchedBy.LOG:
            yield f"{number}. ", f"{rule.code} {rule.name}: {match.seen_as[:SHOWN_CHARACTERS]}"
        else:
            yield f"{number}. ", f"{rule.code} {rule.name}: {rule.summary}"
            yield f"   recognised by the {match.by.value}: ", match.seen_as[:SHOWN_CHARACTERS]
        yield "   shown by: ", sign_of(rule)
        yield "   what to do: ", match.remedy
        yield "", ""
    more = len(matches) - SHOWN
    if more > 0:
        yield "", f"less likely: {', '.join(match.rule.code for match in matches[SHOWN:])}"
    yield "", f"`ddpdoctor explain {matches[0].rule.code}` shows the page of a finding"


def as_json(text: str, matches: Sequence[Match]) -> str:
    """All findings that the text can mean; `text` is the asked text, or the name of the file."""
    document = {
        "schema": SCHEMA,
        "text": text,
        "matches": [
            {
                **rule_as_json(match.rule),
                "remedy": match.remedy,
                "by": match.by.value,
                "seen_as": match.seen_as,
                "score": round(match.score, 3),
            }
            for match in matches
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def rule_as_json(rule: Rule) -> dict[str, str]:
    """What is known of a finding without a job."""
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "summary": rule.summary,
        "shown_by": sign_of(rule),
        "remedy": rule.remedy,
        "url": rule.url,
    }


def page_as_json(rule: Rule, page: str) -> str:
    """One finding with its page."""
    return json.dumps({"schema": SCHEMA, **rule_as_json(rule), "page": page}, indent=2) + "\n"


def index_page(rules: Iterable[Rule]) -> str:
    """The index of all symptoms and error texts, as markdown."""
    return "\n".join(_index(tuple(rules))) + "\n"


def _index(rules: Sequence[Rule]) -> Iterator[str]:
    names = {rule.code: rule.name for rule in rules}
    yield _INTRODUCTION
    for heading, symptoms in GROUPS.items():
        yield f"## {heading}\n"
        yield "| what you see | also as | can mean |\n|---|---|---|"
        for symptom in symptoms:
            also = ", ".join(map(_in_cell, symptom.also))
            codes = ", ".join(f"{_link(code)} {names[code]}" for code in symptom.codes)
            yield f"| {_in_cell(symptom.text)} | {also} | {codes} |"
        yield ""
    yield "## Error texts\n"
    yield "`…` stands for what varies.\n"
    yield "| finding | texts |\n|---|---|"
    for rule, texts in error_texts(rules):
        yield f"| {_link(rule.code)} {rule.name} | {', '.join(f'`{_in_cell(text)}`' for text in texts)} |"


def _link(code: str) -> str:
    return f"[{code}](findings/{code}.md)"


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")

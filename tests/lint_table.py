"""The table of docs/lint-and-run-time.md: `python -m tests.lint_table` writes it from the rules' own `leads_to`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ddpdoctor.catalogue import all_rules
from ddpdoctor.model import Rule

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "lint-and-run-time.md"
HEAD = """\
# What a lint finding becomes at run time

`ddpdoctor lint` finds a mistake in the source; `watch`, `diagnose` or `verify-sync` find what it does to a job. Where the third
column names a fault, `ddpdoctor train --inject CODE` runs a job with it.

This table is written by `python -m tests.lint_table` from the `leads_to` of each rule.

| lint | at run time | fault |
|---|---|---|
"""


def table() -> str:
    """The whole page."""
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in _rows())


def _rows() -> Iterator[tuple[str, str, str]]:
    rules: dict[str, Rule] = {rule.code: rule for rule in all_rules()}
    faults = {path.name[3:6] for path in (ROOT / "reference_train" / "faults").glob("ddp*.py")}
    for code, rule in sorted(rules.items()):
        if rule.leads_to:
            leads = ", ".join(f"{_link(each)} {rules[each].name}" for each in rule.leads_to)
            runs = ", ".join(each for each in rule.leads_to if each[3:] in faults)
            yield f"{_link(code)} {rule.name}", leads, runs


def _link(code: str) -> str:
    return f"[{code}](findings/{code}.md)"


if __name__ == "__main__":
    PAGE.write_text(table())

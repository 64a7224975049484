"""The table of lint rules and run-time findings says what the rules say."""

from __future__ import annotations

from tests.lint_table import PAGE, table


def test_the_table_of_lint_and_run_time_is_what_the_rules_say() -> None:
    """`python -m tests.lint_table` writes it anew."""
    assert PAGE.read_text() == table()

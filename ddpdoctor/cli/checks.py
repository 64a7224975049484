"""`ddpdoctor checks`: the catalogue."""

from __future__ import annotations

import json
from typing import Annotated

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.options import ListFormat


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("checks", short_help="List every finding that ddpdoctor can make.")(checks)


def checks(
    format_: Annotated[ListFormat, typer.Option("--format", "-f", help="Format of the list.")] = ListFormat.TEXT,
) -> None:
    """List every finding that ddpdoctor can make."""
    from ddpdoctor.catalogue import all_rules

    rules = all_rules()
    if format_ is ListFormat.JSON:
        output.show(
            json.dumps(
                [
                    {
                        "code": rule.code,
                        "name": rule.name,
                        "severity": rule.severity.value,
                        "summary": rule.summary,
                        "url": rule.url,
                        "explains": list(rule.explains),
                    }
                    for rule in rules
                ],
                indent=2,
            )
            + "\n"
        )
        return
    from rich.text import Text

    from ddpdoctor.cli.terminal import screen

    widest = max((len(rule.name) for rule in rules), default=0)
    terminal = screen()
    rows = (
        (Text(f"{rule.code}  {rule.severity.value:<4}  {rule.name:<{widest}}  "), Text(rule.summary)) for rule in rules
    )
    output.show(terminal.shown(line for label, body in rows for line in terminal.hanging(label, body)))

"""`ddpdoctor explain CODE`: the page of a finding."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("explain", short_help="Show what a finding means, and what to do about it.")(explain)


def explain(code: Annotated[str, typer.Argument(help="A code such as DDP305, or the name of a finding.")]) -> None:
    """Show what a finding means, how it is found, what to do, and how to reproduce it."""
    from ddpdoctor.cli.rule_selection import find_rule

    page = page_of(find_rule(code).code)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(page))
    else:
        typer.echo(page, nl=False)


def page_of(code: str) -> str:
    """The markdown page of a code: from the installed package first, then from the checkout."""
    name = f"{code}.md"
    installed = Path(str(resources.files("ddpdoctor"))) / "pages" / name
    checkout = Path(__file__).parents[2] / "docs" / "findings" / name
    return next(path for path in (installed, checkout) if path.exists()).read_text(encoding="utf-8")

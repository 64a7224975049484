"""Commands of typer: the types of their options, mistakes, and the variables that set them."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Optional

import pytest
from typer.testing import CliRunner

from ddpdoctor.cli import command_line
from ddpdoctor.cli.command_line import App, Argument, Option


class Color(Enum):
    RED = "red"
    BLUE = "blue"


SEEN: dict[str, Any] = {}


def paint(
    what: Annotated[list[Path], Argument(metavar="FILE...", help="What to paint.")],
    color: Annotated[Color, Option("--color", "-c", help="The color.")] = Color.RED,
    coats: Annotated[int, Option("--coats", min=1, max=9, help="How often.")] = 2,
    tags: Annotated[Optional[list[str]], Option("--tag", help="Any number of tags.")] = None,  # noqa: UP045
    out: Annotated[Optional[Path], Option("--out", metavar="FILE")] = None,  # noqa: UP045
    dry: Annotated[bool, Option("--dry", help="Only say it.")] = False,
) -> None:
    """Paint files."""
    SEEN.update(what=what, color=color, coats=coats, tags=tags, out=out, dry=dry)


def root() -> None:
    """A program."""


def invoke(*arguments: str, **environ: str) -> Any:
    app = App("painter")
    app.callback()(root)
    app.command("paint")(paint)
    SEEN.clear()
    return CliRunner().invoke(app, ["paint", *arguments], env=environ)


def test_values_have_the_types_of_the_annotations() -> None:
    assert invoke("a", "b", "-c", "blue", "--tag", "x", "--tag", "y", "--out", "o", "--dry").exit_code == 0
    assert {
        "what": [Path("a"), Path("b")], "color": Color.BLUE, "coats": 2, "tags": ["x", "y"], "out": Path("o"), "dry": True,
    } == SEEN  # fmt: skip


def test_what_is_not_given_is_the_default() -> None:
    invoke("a")
    assert {"what": [Path("a")], "color": Color.RED, "coats": 2, "tags": None, "out": None, "dry": False} == SEEN


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing argument"),
        (["a", "--coats", "10"], "10 is not in the range 1<=x<=9"),
        (["a", "--color", "green"], "'green' is not one of 'red', 'blue'"),
        (["a", "--dri"], "No such option"),
    ],
)
def test_mistakes_are_told(arguments: list[str], said: str) -> None:
    ended = invoke(*arguments)
    assert ended.exit_code == 2
    assert said in ended.output


def test_help_shows_arguments_options_and_defaults() -> None:
    shown = invoke("--help").output
    assert shown.count("What to paint.") == 1
    assert "[default: red]" in shown
    assert "--coats N " in shown
    assert "[default: 2; 1<=x<=9]" in shown


def test_a_variable_sets_an_option_and_that_of_the_command_comes_first() -> None:
    assert command_line.variables_of("paint", "--coats") == ("DDPDOCTOR_PAINT_COATS", "DDPDOCTOR_COATS")
    invoke("a", DDPDOCTOR_COATS="5")
    assert SEEN["coats"] == 5
    invoke("a", DDPDOCTOR_COATS="5", DDPDOCTOR_PAINT_COATS="6")
    assert SEEN["coats"] == 6
    invoke("a", "--coats", "7", DDPDOCTOR_PAINT_COATS="6")
    assert SEEN["coats"] == 7

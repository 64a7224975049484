"""Nothing from outside acts on the terminal or passes for a line of ours: one function quotes it, one module writes."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ddpdoctor.cli import output
from ddpdoctor.evidence.links import Links, Node, NodeLink
from ddpdoctor.model import Crashed, Report, Skipped, Where
from ddpdoctor.quoting import quoted, quoted_lines
from ddpdoctor.render import github, junit, lines, markdown, text
from ddpdoctor.render import json as as_json
from ddpdoctor.render.link_matrix import heat_map, nodes_file
from ddpdoctor.render.screen import Screen
from tests.render import CALLED_BY_SOME, REPORT

PACKAGE = Path(__file__).parents[2] / "ddpdoctor"
FORGED = "no findings (30 checks ran, 0 skipped)"
HOSTILE = f"a\x1b]0;title\x07\x1b[2J\r\n{FORGED}\n::error::forged\x85{FORGED}\u2028{FORGED}\u202eb\udc80\x00\x9b1m"

# what may name a stream, with the reason
OTHER_WAYS = {
    "cli/output.py": "the way",
    "render/screen.py": "a rich console that writes to a string",
    "render/console.py": "makes rich consoles for those that may have one",
    "agent/inside": "runs in the user's ranks",
    "agent/on_path": "runs in the user's ranks",
    "cli/progress.py": "draws a bar on stderr with rich",
    "cli/top.py": "draws a live table with rich, whose cells are quoted",
    "launch/subreaper.py": "a program of its own, without ddpdoctor",
    "launch/program_batch.py": "a program of its own, without ddpdoctor",
    "launch/stderr_tee.py": "a program of its own, without ddpdoctor",
    "launch/notebook.py": "passes the output of the user's function on",
    "workflows/verify_script.py": "hands the stream to the user's script",
    "launch/observed_job.py": "hands the stream to the user's job",
}
HEADING = text.Heading(command="ddpdoctor watch", clock="14:02:11", subject=HOSTILE)
ASK_A_STREAM = {
    "cli/terminal.py",
    "cli/report_output.py",
    "cli/watch_reporter.py",
    "cli/env.py",
}  # for its width, encoding and colours
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
WORDS = ("print(", "onsole(", "echo", "error.show", *STREAMS)  # a file without any of them is not parsed


def ways_to_the_screen(tree: ast.Module) -> list[str]:
    """What in a module writes to the terminal: `print`, `typer.echo`, `sys.stdout`, a rich console, descriptors 1 and 2."""
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"print", "Console", "new_console"}
        ):
            found.append(node.func.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = node.value.id, node.attr
            if (owner == "sys" and name in STREAMS) or (owner in {"typer", "click"} and name in {"echo", "secho"}):
                found.append(f"{owner}.{name}")
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "error.show" and not node.keywords:
            found.append("error.show")
        if isinstance(node, ast.ImportFrom) and node.module in {"typer", "click"}:
            found += [alias.name for alias in node.names if alias.name in {"echo", "secho"}]
    return found


def test_there_is_one_way_to_the_screen() -> None:
    others = {}
    for file in PACKAGE.rglob("*.py"):
        name, text = str(file.relative_to(PACKAGE)), file.read_text(encoding="utf-8")
        if any(word in text for word in WORDS) and not any(name.startswith(allowed) for allowed in OTHER_WAYS):
            found = ways_to_the_screen(ast.parse(text))
            others[name] = [way for way in found if name not in ASK_A_STREAM or not way.startswith("sys.")]
    assert not {name: found for name, found in others.items() if found}


def test_the_law_sees_each_way() -> None:
    source = "import sys, typer\nprint(1)\ntyper.echo(1)\nsys.stderr.write('')\nConsole().print(1)\nerror.show()"
    assert len(ways_to_the_screen(ast.parse(source))) == 5


def harmless(shown: str) -> None:
    """No control character but the line break, and no line that a hostile text began."""
    assert all(character == "\n" or character == "\t" or character.isprintable() for character in shown)
    assert not [line for line in shown.splitlines() if line.lstrip().startswith((FORGED, "::error::forged"))]


FINDING = replace(
    CALLED_BY_SOME.finding(
        HOSTILE,
        hosts=(HOSTILE,),
        where=(Where(rank=0, file=HOSTILE, line=1, function=HOSTILE, note=HOSTILE),) * 2,
        details=(HOSTILE,),
        remedy=HOSTILE,
        said=HOSTILE,
    )
)
REPORT_OF_A_STRANGER = Report(
    outcomes=(*(replace(outcome, reason=HOSTILE) if isinstance(outcome, Skipped) else outcome for outcome in REPORT.outcomes),
              Crashed(CALLED_BY_SOME, HOSTILE)),
    findings=(FINDING, replace(FINDING, explained_by="DDP305")),
    notes=(HOSTILE,),
    undecided=(HOSTILE,),
)  # fmt: skip


@pytest.mark.parametrize(
    "render",
    [
        text.render,
        lambda report: text.render(report, verbose=True),
        lines.render,
        lambda report: re.sub(
            r"\x1b\[[0-9;]*m", "", text.render(report, screen=Screen(color=True, width=60), heading=HEADING)
        ),
        lambda report: re.sub(r"\x1b\[[0-9;]*m", "", lines.render(report, screen=Screen(color=True))),
        github.render,
        lambda report: markdown.render(report, facts=[(HOSTILE, HOSTILE)]),
        junit.render,
        as_json.render,
    ],
)
def test_every_renderer_quotes_every_text(render: Callable[[Report], str]) -> None:
    harmless(render(REPORT_OF_A_STRANGER))


def test_github_gets_no_command_of_a_stranger() -> None:
    commands = [line for line in github.render(REPORT_OF_A_STRANGER).splitlines() if line.startswith("::")]
    assert all(command.startswith(("::error title=", "::error file=")) for command in commands)


def test_machines_get_documents_that_parse() -> None:
    ET.fromstring(junit.render(REPORT_OF_A_STRANGER))
    assert json.loads(as_json.render(REPORT_OF_A_STRANGER))["notes"] == [HOSTILE]


def test_markdown_has_no_link_or_picture_of_a_stranger() -> None:
    link = "![x](https://elsewhere.example/a.png) <img src=y> [x](https://elsewhere.example)"
    page = markdown.render(replace(REPORT_OF_A_STRANGER, notes=(link,)))
    assert "![" not in page
    assert "<img" not in page


def test_pictures_of_links_quote_the_names_of_peers() -> None:
    nodes = tuple(Node(node=number, host=HOSTILE, address=HOSTILE) for number in range(2))
    links = Links(
        nodes=nodes,
        links=(NodeLink(source=0, target=1, outcome="refused", detail=HOSTILE),),
        expected=2,
    )
    harmless(heat_map(links))
    harmless(nodes_file(links))
    assert len(nodes_file(links).splitlines()) == 2


@pytest.mark.parametrize("err", [False, True])
def test_the_screen_lets_no_control_character_through(capsys: pytest.CaptureFixture[str], err: bool) -> None:
    """Where a renderer forgot to quote, the screen does; colours pass only where they are asked for."""
    output.show(f"{HOSTILE}\x1b[1m\n", err=err)
    output.show("\x1b[1mbold\x1b[0m \x1b[2J\n", err=err, colored=True)
    captured = capsys.readouterr()
    shown = captured.out + captured.err
    assert "\x1b[1mbold\x1b[0m \\x1b[2J" in shown
    rest = shown.replace("\x1b[1mbold\x1b[0m", "")
    assert all(character in "\n\t" or character.isprintable() for character in rest)


def test_annotations_let_no_control_character_through(capsys: pytest.CaptureFixture[str]) -> None:
    output.ci_commands("::error title=x::a\x1b[2J\u202e\n")
    assert capsys.readouterr().out == "::error title=x::a\\x1b[2J\\u202e\n"


def test_remarks_errors_and_tables_are_lines_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    output.table([(HOSTILE, HOSTILE)])
    output.say(HOSTILE)
    output.complain(HOSTILE, [HOSTILE], HOSTILE)
    captured = capsys.readouterr()
    harmless(captured.out + captured.err)


def test_what_is_printable_stays_as_it_is() -> None:
    assert quoted("größe 5 µs, 80 %\tpath/ä b.py") == "größe 5 µs, 80 %\tpath/ä b.py"
    assert quoted("a\nb\x1b[1m\u202e\udc80") == r"a\nb\x1b[1m\u202e\udc80"
    assert quoted_lines("a\nb") == ["a", "| b"]


@pytest.mark.parametrize(
    "name", ["::error::x.py", "  ::set-output name=a::b", "##[error]x", "::warning file=a,line=1::b"]
)
def test_no_text_begins_with_a_command_to_a_ci_service(name: str) -> None:
    assert not quoted(name).lstrip().startswith(("::", "##["))


@pytest.mark.parametrize("address", ["::1", "::ffff:10.0.0.1", "fe80::1"])
def test_an_address_is_no_such_command(address: str) -> None:
    assert quoted(address) == address

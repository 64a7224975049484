"""The options that every command which ends in a report shares."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli.invocation import Invocation, current
from ddpdoctor.errors import UsageError
from ddpdoctor.model import Severity


class Format(typer.Choice):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"
    HTML = "html"
    CSV = "csv"
    SARIF = "sarif"
    CONCISE = "concise"


class ListFormat(typer.Choice):
    """How something is written that is no report: a catalogue, a list of values, a page."""

    TEXT = "text"
    JSON = "json"


class FailOn(typer.Choice):
    """The least severe finding that makes a command exit with 1."""

    WARN = "warn"
    FAIL = "fail"


def _codes(given: list[str] | None) -> list[str]:
    """The codes and families that an option names; click calls it for every value, also of a variable or a project file."""
    from ddpdoctor.cli.rule_selection import parse_codes  # the catalogue is imported when it is used

    return [*parse_codes(given or ())]


FormatOption = Annotated[
    Format,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help=f"Format of the report: {Format.listed()}.",
    ),
]
OutputOption = Annotated[
    Optional[Path],  # noqa: UP045 - a default of None on Python 3.10
    typer.Option("--output", "-o", metavar="FILE", help="Write the report to FILE; text still goes to the terminal."),
]
SelectOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--select",
        metavar="CODE",
        callback=_codes,
        help="Only these codes or families (DDP3); repeat or separate by commas.",
    ),
]
IgnoreOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--ignore",
        metavar="CODE",
        callback=_codes,
        help="Not these codes or families; repeat or separate by commas.",
    ),
]
FailOnOption = Annotated[FailOn, typer.Option("--fail-on", help="Lowest severity that sets exit code 1.")]
CaseOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--case", metavar="PATH", help="Save the evidence to a .json file or a directory."),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="List every skipped check with its reason.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What the user asked of the report."""

    format: Format = Format.TEXT
    """Text for people, or one of the formats for machines."""
    output: Path | None = None
    """The file that it is written to; None for stdout."""
    select: tuple[str, ...] = ()
    """The codes and families that are looked for; empty for all."""
    ignore: tuple[str, ...] = ()
    """The codes and families that are left out."""
    fail_on: Severity = Severity.FAIL
    """The least severe finding that makes the command exit with 1."""
    case: Path | None = None
    """Where the evidence is saved; None for nowhere."""
    verbose: bool = False
    """Whether every skipped check is listed."""
    title: str = "ddpdoctor"
    """What stands above it."""
    invocation: Invocation = field(default_factory=current)
    """The command line, and when it began."""


def reports(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that every report has; its keyword `options` takes them in one type.

    A code that no rule has is a `UsageError`, with the nearest one that exists; so is a place that cannot be written to
    because of what is there already, or that the command reads.
    """

    @wraps(command)
    def with_options(**arguments: Any) -> None:  # noqa: ANN401 - as many types as commands have options
        asked = {name: arguments.pop(name) for name in shared}
        for value in arguments.values():
            refuse_to_replace(value if isinstance(value, list) else [value], "--output", asked["output"])
        command(**arguments, options=_report_options(title=title, **asked))

    title = f"ddpdoctor {command.__name__.replace('_', '-')}"
    own = inspect.signature(command, eval_str=True)
    shared = {**inspect.signature(_report_options, eval_str=True).parameters}
    del shared["title"]
    mine = [parameter for parameter in own.parameters.values() if parameter.name != "options"]
    with_options.__signature__ = own.replace(parameters=[*mine, *shared.values()])  # type: ignore[attr-defined] # typer reads it
    return with_options


def refuse_to_replace(inputs: Iterable[object], option: str, file: Path | None) -> None:
    """Refuse to write to a file that the command reads.

    Raises:
        UsageError: `file`, which `option` names, is one of the files among `inputs`.
    """
    if file is None or not file.is_file():
        return
    for name in inputs:
        if isinstance(name, str | Path) and _is_same_file(Path(name), file):
            raise UsageError(
                f"{option} {file} would replace {name}, which this command reads",
                hint=f"name another file: `{option} {file}.report`",
            )


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # a word of the command line that is no file's name
        return False


def _report_options(
    *,
    title: str,
    format_: FormatOption = Format.TEXT,
    output: OutputOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.FAIL,
    case: CaseOption = None,
    verbose: VerboseOption = False,
) -> ReportOptions:
    if output is not None and output.is_dir():
        raise UsageError(f"--output {output} is a directory", hint=f"name a file: `--output {output / 'report'}`")
    if case is not None and case.suffix != ".json" and case.is_file():
        raise UsageError(f"--case {case} is a file", hint="name a directory, or a file that ends in .json")
    return ReportOptions(
        format=format_,
        output=output,
        select=tuple(select or ()),
        ignore=tuple(ignore or ()),
        fail_on=Severity(fail_on.value),
        case=case,
        verbose=verbose,
        title=title,
    )

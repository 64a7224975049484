"""`ddpdoctor lint`: the usual mistakes in launch scripts, manifests and training code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from ddpdoctor.atomic_file import write_atomically
from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.options import Format, ReportOptions, reports
from ddpdoctor.errors import UsageError

if TYPE_CHECKING:
    from ddpdoctor.workflows.lint import Linted
    from ddpdoctor.workflows.lint_config import LintConfig


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("lint", short_help="Name the usual mistakes in scripts and training code.")(lint)


@reports
def lint(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Launch scripts, manifests, Python files, notebooks, or directories."),
    ],
    *,
    fix: Annotated[bool, typer.Option("--fix", help="Correct what can be corrected safely.")] = False,
    unsafe_fixes: Annotated[
        bool,
        typer.Option("--unsafe-fixes", help="With --fix or --diff: also changes that may alter what the program does."),
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change, and write nothing.")] = False,
    baseline: Annotated[
        Optional[Path],  # noqa: UP045 - typer on Python 3.10 reads Optional only
        typer.Option("--baseline", metavar="FILE", help="Leave out the findings of old code that FILE names."),
    ] = None,
    write_baseline: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--write-baseline", metavar="FILE", help="Write the findings of today to FILE, and exit with 0."),
    ] = None,
    force_exclude: Annotated[
        bool, typer.Option("--force-exclude", help="Apply `exclude` of pyproject.toml to files that are named, too.")
    ] = False,
    options: ReportOptions,
) -> None:
    """Name the usual mistakes in scripts and training code."""
    from ddpdoctor.cli.report_output import keep
    from ddpdoctor.workflows.lint import LintOptions, lint_paths
    from ddpdoctor.workflows.lint_baseline import baseline_of

    _refuse_places(paths, write_baseline)
    config = project_config(paths)
    if force_exclude:
        paths = _not_excluded(paths, config)
    known = None if write_baseline is not None else baseline or config.baseline
    wanted = LintOptions(
        select=options.select,
        ignore=options.ignore,
        config=config,
        baseline=known,
        facts=options.case is not None or options.format is Format.HTML,
    )
    if fix and not diff:
        linted = _fixed(lambda: lint_paths(paths, wanted), unsafe=unsafe_fixes)
    else:
        linted = _with_fixable(lint_paths(paths, wanted))
    if diff:
        _show_changes(linted, unsafe=unsafe_fixes)
    elif write_baseline is not None:
        write_atomically(write_baseline, baseline_of(linted.report.findings, write_baseline.parent))
        output.show(f"{len(linted.report.findings)} findings written to {write_baseline}\n")
        raise typer.Exit(0)
    else:
        _show(linted, options)
    keep(linted.evidence, options)
    raise typer.Exit(linted.report.exit_code(options.fail_on))


def _refuse_places(paths: Sequence[Path], write_baseline: Path | None) -> None:
    """Say what cannot be read or written before anything is."""
    if Path("-") in paths and not Path("-").exists():
        raise UsageError("lint reads files, not standard input (-)", hint="save the code to a file and lint that file")
    if write_baseline is not None and write_baseline.is_dir():
        raise UsageError(
            f"--write-baseline {write_baseline} is a directory",
            hint=f"name a file: `--write-baseline {write_baseline / 'baseline.json'}`",
        )


def _not_excluded(paths: list[Path], config: LintConfig) -> list[Path]:
    """The named files without those that the project excludes; where it excludes all of them, nothing is left to do."""
    kept = [path for path in paths if not config.excluded(path)]
    if paths and not kept:
        output.show(f"{len(paths)} files are excluded by {config.folder / 'pyproject.toml'}\n")
        raise typer.Exit(0)
    return kept


def _fixed(lint_again: Callable[[], Linted], *, unsafe: bool) -> Linted:
    """What is left once the fixes are made, with a note of them."""
    from ddpdoctor.workflows.lint_fixes import fix_all

    fixed = fix_all(lambda: lint_again().report.findings, unsafe=unsafe)
    files = f"{len(fixed.after)} file{'' if len(fixed.after) == 1 else 's'}"
    linted = _noted(lint_again(), f"{_counted(fixed.count)} made in {files}", fixed.count)
    for name in fixed.read_only:
        linted = _noted(linted, f"{name} is read-only: its fixes are not made", 1)
    return linted


def _show_changes(linted: Linted, *, unsafe: bool) -> None:
    """Show what `--fix` would change."""
    from ddpdoctor.workflows.lint_fixes import preview

    changes, left_out = preview(linted.report.findings, unsafe=unsafe).diff()
    output.patch(changes)
    for name in left_out:
        output.say(f"{name} holds control characters: its changes cannot be shown, --fix makes them")


def project_config(paths: Sequence[Path]) -> LintConfig:
    """The configuration of the project that `paths` belong to, with codes as rules have them.

    Says on stderr which files of other users are not used, but for those of which every command says so.

    Raises:
        UsageError: it is wrong, or no rule has such a code, family or name.
    """
    from ddpdoctor.cli.project_file import say_strangers, strangers_here
    from ddpdoctor.cli.rule_selection import parse_codes
    from ddpdoctor.workflows.lint_config import config_for

    strangers: list[Path] = []
    config = config_for(paths, strangers.append)
    if strangers:
        known = strangers_here()
        say_strangers(file for file in strangers if file not in known)
    ignores = {pattern: parse_codes(codes) for pattern, codes in config.per_file_ignores.items()}
    return replace(
        config, select=parse_codes(config.select), ignore=parse_codes(config.ignore), per_file_ignores=ignores
    )


def _show(linted: Linted, options: ReportOptions) -> None:
    from ddpdoctor.cli.report_output import (
        formatted,
        say_where,
        show_formatted,
        summarise,
        with_command,
        with_excerpts,
        with_reason,
    )
    from ddpdoctor.cli.terminal import screen
    from ddpdoctor.render import lines

    linted = replace(linted, report=with_reason(linted.report))
    plain = options.format is Format.TEXT
    shown = with_command(linted.evidence, options)
    if options.format is Format.HTML:
        shown = with_excerpts(shown, linted.report)
    if plain or options.output is not None:
        output.show(lines.render(linted.report, screen=screen()), colored=True)
    else:
        show_formatted(formatted(linted.report, options, evidence=shown), options)
    if options.output is not None:
        written = lines.render(linted.report) if plain else formatted(linted.report, options, evidence=shown)
        write_atomically(options.output, written, private=True)
        say_where(options.output)
    summarise(linted.report, options)


def _with_fixable(linted: Linted) -> Linted:
    """The report with a note on what `--fix` can correct."""
    from ddpdoctor.workflows.lint_fixes import count_fixable

    safe = count_fixable(linted.report.findings, unsafe=False)
    more = count_fixable(linted.report.findings, unsafe=True) - safe
    also = f", {_counted(more)} with --unsafe-fixes" if more else ""
    return _noted(linted, f"{_counted(safe)} with --fix{also}", safe + more)


def _noted(linted: Linted, note: str, count: int) -> Linted:
    if not count:
        return linted
    return replace(linted, report=replace(linted.report, notes=(*linted.report.notes, note)))


def _counted(count: int) -> str:
    return f"{count} {'fix' if count == 1 else 'fixes'}"

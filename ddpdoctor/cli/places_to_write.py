"""Files that a long command will write: a place where that cannot work is named before the work and not after it."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ddpdoctor.case import CASE_FILE
from ddpdoctor.cli.options import ReportOptions
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.planted_files import led_to


def check_places(options: ReportOptions, others: Mapping[str, Path | None] | None = None) -> None:
    """See that the files of `--output`, of `--case` and of the `others`, by option, can be written.

    Ranks other than rank 0 write nothing, and what their host can write is not asked.

    Raises:
        UsageError: one of them cannot be written; nothing was made or changed.
    """
    launch = Launch.from_environ(os.environ)
    if launch is not None and launch.rank != 0:
        return
    for option, path in {"--output": options.output, "--case": options.case, **(others or {})}.items():
        if path is not None:
            _check(option, path, path / CASE_FILE if option == "--case" and path.suffix != ".json" else path)


def refuse_earlier_case(case: Path | None) -> None:
    """Refuse to write a case over an earlier one.

    Where a launcher started several of us, each writes a file that is named after its ranks, which are not known yet.

    Raises:
        UsageError: `case` is, or has in it, the file that this node would write.
    """
    launch = Launch.from_environ(os.environ)
    if launch is not None and launch.world_size > 1:
        return
    file = None if case is None else case if case.suffix == ".json" else case / CASE_FILE
    if case is not None and file is not None and file.is_file():
        other = case.with_name(f"{case.stem}-2{case.suffix}")
        raise UsageError(
            f"--case {case} holds an earlier case, {file}, which this run would overwrite",
            hint=f"name another place: `--case {shlex.quote(str(other))}`; or remove that one: `rm {shlex.quote(str(file))}`",
        )


def _check(option: str, path: Path, file: Path) -> None:
    try:
        target = led_to(file)
        if (
            target.exists() and not target.is_file()
        ):  # a pipe or /dev/null; a directory is refused where options are read
            return
        folder = target.parent
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        here = Path(path.name)
        other = here if path != here else Path(tempfile.gettempdir()) / here
        raise UsageError(
            f"{option} {path} cannot be written: {error.strerror}",
            hint=f"give a path in a writable directory: `{option} {shlex.quote(str(other))}`",
        ) from None

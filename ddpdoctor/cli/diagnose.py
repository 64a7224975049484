"""`ddpdoctor diagnose PATH...`: why a job hung or died, from what it left behind."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli.options import ReportOptions, refuse_to_replace, reports
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence

SHOWN_PATHS = 3


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("diagnose", short_help="Say why a job died, from its dumps, logs and saved cases.")(diagnose)


@reports
def diagnose(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Recorder dumps, job logs, saved cases: files or directories."),
    ],
    trace: Annotated[
        Optional[Path],  # noqa: UP045 - typer on Python 3.10 reads Optional only
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Write the collectives of all ranks as a trace for Perfetto (.json, .json.gz).",
        ),
    ] = None,
    *,
    options: ReportOptions,
) -> None:
    """Say why a job hung or died, from the flight-recorder dumps, logs and cases that it left.

    Dumps are read without running anything that is in them. Files that cannot be read are named and left out.
    """
    from ddpdoctor.cli.progress import progress
    from ddpdoctor.cli.report_output import conclude
    from ddpdoctor.workflows.diagnose import gather

    refuse_to_replace(paths, "--trace", trace)
    with progress(
        "reading " + ", ".join(map(str, paths[:SHOWN_PATHS])) + (", ..." if len(paths) > SHOWN_PATHS else "")
    ):
        evidence = gather(paths)
    if trace is not None:
        check_trace(trace, evidence)
    files = [partial(write_trace, evidence, trace)] if trace is not None else []
    conclude(evidence, options, reads_only=True, afterwards=files)


def check_trace(path: Path, evidence: Evidence) -> None:
    """Refuse a trace that cannot be written.

    Raises:
        UsageError: `path` is a directory, or the evidence holds no call of any rank.
    """
    from importlib.util import find_spec

    from ddpdoctor.evidence.recorder import FlightRecord

    if find_spec("numpy") is None:
        raise UsageError("--trace needs numpy, which is not installed", hint="pip install numpy")
    if path.is_dir():
        raise UsageError(f"--trace {path} is a directory", hint=f"name a file: `--trace {path / 'trace.json'}`")
    if not any(len(entry.value) for entry in evidence.per_rank(FlightRecord) or ()):
        raise UsageError(
            "--trace needs flight-recorder dumps, and none of the files holds one",
            hint="give the dumps of the ranks, or a case that `ddpdoctor watch --case` saved",
        )


def write_trace(evidence: Evidence, path: Path) -> None:
    """Write the collectives of all ranks to `path`, compressed where it ends in .gz."""
    from ddpdoctor.atomic_file import write_atomically
    from ddpdoctor.render import chrome_trace

    data = b"".join(map(str.encode, chrome_trace.chunks(evidence)))
    if path.suffix == ".gz":
        import gzip

        data = gzip.compress(data, compresslevel=1, mtime=0)
    write_atomically(path, data)

"""Read launch scripts: the files that are named, and those in directories that are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ddpdoctor.errors import UsageError
from ddpdoctor.evidence.scripts import ScriptFile, ScriptFiles

SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".job")
MOST_BYTES = 1 << 20  # no launch script is that long


def read_scripts(paths: Sequence[Path]) -> ScriptFiles:
    """The scripts at `paths`; in directories those named like shell or batch scripts, below hidden folders none.

    Raises:
        UsageError: a path does not exist or is no readable text, or there is no script in the directories.
    """
    files = [file for path in paths for file in (sorted(_below(path)) if path.is_dir() else [path])]
    if not files:
        raise UsageError(
            f"no launch script in {', '.join(map(str, paths))}",
            hint=f"name the file itself; found are {', '.join(SUFFIXES)}",
        )
    return ScriptFiles(files=tuple(_read(file) for file in files))


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix in SUFFIXES and path.is_file() and not hidden:
            yield path


def _read(file: Path) -> ScriptFile:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise UsageError(f"{file} is larger than any launch script ({MOST_BYTES} bytes)")
        return ScriptFile(path=str(file), text=file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not a text file") from None

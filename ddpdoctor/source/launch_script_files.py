"""Read launch scripts: the files that are named, those in directories that are named, and the Python programs in them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ddpdoctor.errors import UsageError
from ddpdoctor.evidence.scripts import ProgramFile, ScriptFile, ScriptFiles

SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".job")
MOST_BYTES = 1 << 20  # no launch script is that long
_PROGRAM = re.compile(r"(?<![\w./$}-])[\w./-]+\.py\b")


def read_scripts(paths: Sequence[Path]) -> ScriptFiles:
    """The scripts at `paths` with the programs that they start.

    In directories those named like shell or batch scripts, below hidden folders none.

    Raises:
        UsageError: a path does not exist or is no readable text, or there is no script in the directories.
    """
    files = [file for path in paths for file in (sorted(_below(path)) if path.is_dir() else [path])]
    if not files:
        raise UsageError(
            f"no launch script in {', '.join(map(str, paths))}",
            hint=f"give the file itself; recognised suffixes: {', '.join(SUFFIXES)}",
        )
    scripts = tuple(_read(file) for file in files)
    return ScriptFiles(files=scripts, programs=tuple(program for script in scripts for program in _programs(script)))


def _programs(script: ScriptFile) -> Iterator[ProgramFile]:
    """The Python files that a script names, from its own folder or from here; what is not at hand is left out."""
    for name in dict.fromkeys(_PROGRAM.findall(script.text)):
        for file in (Path(script.path).parent / name, Path(name)):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if file.is_file() and file.stat().st_size <= MOST_BYTES:
                    yield ProgramFile(path=str(file), text=file.read_text(encoding="utf-8"), started_by=script.path)
                    break


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

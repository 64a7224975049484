"""Reads launch scripts and manifests: the files that are named, those in folders that are named, and the programs in them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.evidence.remarks import Remark
from ddpdoctor.evidence.scripts import Manifest, ProgramFile, Script, ScriptFiles
from ddpdoctor.evidence.variables import KnownNames
from ddpdoctor.host.env_var_catalog import PREFIXES, known_names, nccl_libraries, torch_folder
from ddpdoctor.host.host_access import HostAccess
from ddpdoctor.regular_file import read_regular
from ddpdoctor.source.folders import folders_below, identity
from ddpdoctor.source.launch_scripts.manifests import SUFFIXES as MANIFEST_SUFFIXES
from ddpdoctor.source.launch_scripts.manifests import NoManifest, may_train, read_manifests
from ddpdoctor.source.launch_scripts.shell import read_script
from ddpdoctor.source.launch_scripts.shell_syntax import ShellUnreadable
from ddpdoctor.source.remarks import remarks_in
from ddpdoctor.source.statement_lines import comments_of_manifest, comments_of_shell
from ddpdoctor.source.training_code import SUFFIXES as PYTHON_SUFFIXES

SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".job", ".pbs", ".lsf")
NO_SCRIPTS = (".log", ".out", ".err", ".json", ".jsonl", ".csv")
"""Suffixes of what a job leaves: as a script it would be read without a word, and without a finding."""
MOST_BYTES = 1 << 17  # the longest of 345 public ones has 18 KB
LEVELS_UP = 4  # folders above a script from which it may be started
_UNKNOWN = re.compile(r"[$`«]")
_PROGRAM = re.compile(r"(?<![\w./$}-])[\w./-]+\.py\b")


@dataclass(frozen=True, slots=True)
class ReadScripts:
    """What reading launch scripts gave."""

    files: ScriptFiles
    """The scripts, manifests and programs that were read."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Of each file that could not be read its path and the reason."""


def script_files(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """The launch scripts and manifests at `paths`, and whether each was named itself.

    A file that is named is a manifest by its suffix, Python by its suffix, and else a script. In folders those with the
    suffixes of scripts and manifests count. A file of several names is there once, by the first.
    """
    first: dict[tuple[int, int] | str, tuple[Path, bool]] = {}
    for path, named in _all_names(paths):
        known, before = first.get(identity(path), (path, False))
        first[identity(path)] = known, named or before
    yield from first.values()


def _all_names(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    for path in paths:
        if path.is_dir():
            yield from ((file, False) for file in sorted(_below(path)))
        elif path.suffix not in PYTHON_SUFFIXES:
            yield path, True


def read_scripts(files: Iterable[tuple[Path, bool]]) -> ReadScripts:
    """These launch scripts and manifests, with the programs that they start; of YAML that was not named what starts ranks."""
    scripts: list[Script] = []
    manifests: list[Manifest] = []
    programs: list[ProgramFile] = []
    unreadable: list[tuple[str, str]] = []
    remarks: list[Remark] = []
    files = list(files)
    at_hand = _AtHand(frozenset(Path(os.path.abspath(path)) for path, _ in files))  # noqa: PTH100 - links stay
    for path, named in files:
        with _reason_kept(path, unreadable, named=named):
            if path.suffix in NO_SCRIPTS:
                raise _Unreadable("it is no launch script by its name; `ddpdoctor diagnose` reads logs and cases")
            text = _text(path)
            if path.suffix in MANIFEST_SUFFIXES:
                if named or may_train(text):
                    manifests += read_manifests(str(path), text)
                    remarks += remarks_in(text, _here(path), comments_of_manifest)
            else:
                scripts.append(read_script(str(path), text, at_hand.beside(path)))
                remarks += remarks_in(text, _here(path), comments_of_shell)
                programs += _programs(path, text)
    found = ScriptFiles(
        scripts=tuple(scripts),
        manifests=tuple(manifests),
        programs=tuple(programs),
        remarks=tuple(remarks),
        names=_names(scripts, manifests),
    )
    return ReadScripts(found, tuple(unreadable))


@dataclass(frozen=True, slots=True)
class _AtHand:
    """The scripts that are read in this run, which are looked at where another one of them runs or sources them."""

    files: frozenset[Path]

    def beside(self, script: Path) -> Callable[[str], str | None]:
        """What gives the text of another script by its name in this one.

        The name counts from the script's folder, or from one above it, where people start it. Where it begins with what is
        not known, such as `$(dirname "$0")/common.sh`, the rest counts from the script's folder.
        """
        own = Path(os.path.abspath(script))  # noqa: PTH100 - links stay

        def found(name: str) -> str | None:
            known = re.split(r"[)}»]|\$\w+", name)[-1].strip('"').lstrip("/") if _UNKNOWN.search(name) else name
            above = [own.parent] if known != name else [own.parent, *list(own.parents)[1:LEVELS_UP]]
            for folder in above:
                file = Path(os.path.normpath(folder / known))
                if file in self.files and file != own:
                    with contextlib.suppress(_Unreadable):
                        return _text(file)
            return None

        return found


def _here(path: Path) -> Callable[[int], tuple[str, int]]:
    return lambda line: (str(path), line)


class _Unreadable(Exception):  # noqa: N818 - a reason, shown as a note
    """A file is passed over; the message says why."""


@contextlib.contextmanager
def _reason_kept(path: Path, unreadable: list[tuple[str, str]], *, named: bool) -> Iterator[None]:
    """Note why a file cannot be read; of YAML only where it was named: templates of Helm and others are none."""
    try:
        yield
    except (_Unreadable, ShellUnreadable) as reason:
        unreadable.append((str(path), str(reason)))
    except NoManifest as reason:
        if named:
            unreadable.append((str(path), str(reason)))


def _below(folder: Path) -> Iterator[Path]:
    for top, files in folders_below(folder):
        yield from (top / name for name in files if name.endswith((*SUFFIXES, *MANIFEST_SUFFIXES)))


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise _Unreadable(f"it is larger than any launch script ({MOST_BYTES} bytes)")
        data = read_regular(file)
    except OSError as error:
        raise _Unreadable(error.strerror or "it cannot be read") from None
    if b"\0" in data:
        raise _Unreadable("it is not a text file")
    return data.decode(errors="replace")


def _programs(script: Path, text: str) -> Iterator[ProgramFile]:
    """The Python files that a script names, from its own folder or from here; what is not at hand is left out."""
    for name in dict.fromkeys(_PROGRAM.findall(text)):
        for file in (script.parent / name, Path(name)):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if file.is_file() and file.stat().st_size <= MOST_BYTES:
                    yield ProgramFile(path=str(file), text=read_regular(file).decode(), started_by=str(script))
                    break


def _names(scripts: Sequence[Script], manifests: Sequence[Manifest]) -> KnownNames | None:
    """What the libraries here know of the variables that are set."""
    settings = [setting for script in scripts for setting in script.variables]
    settings += [setting for manifest in manifests for each in manifest.containers for setting in each.variables]
    asked = frozenset(setting.name for setting in settings if setting.name.startswith(PREFIXES))
    return known_names(asked, torch_folder(), tuple(nccl_libraries(HostAccess()))) if asked else None

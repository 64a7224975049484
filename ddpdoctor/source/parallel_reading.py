"""Reads many files with two processes: files that import each other stay together."""

from __future__ import annotations

import gc
import itertools
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ddpdoctor.evidence.training_code import Module, Program, TrainingCode
from ddpdoctor.launch.reading_pool import ReadingPool
from ddpdoctor.model import Outcome
from ddpdoctor.regular_file import read_regular
from ddpdoctor.source.program.programs import may_train
from ddpdoctor.source.program.project import Project, Source, prefixes
from ddpdoctor.source.training_code import Judge, Reading, python_files, read_apart, read_files

FEW = 100  # below that starting processes costs more than it saves
PROCESSES = 2
MOST_BYTES = (
    1 << 17
)  # of a part's text: its trees take 60 times as much, in pages that the system hands out for each part anew
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]{0,9999}|(?:[\w, \t]|\\\r?\n)*)|import[ \t]+([\w., \t]+))",
    re.MULTILINE,
)
_COMMENT = re.compile(r"#[^\n]*")


def read_training_code(paths: Sequence[Path], judge: Judge | None = None) -> Reading:
    """The facts about the Python files at `paths` and about the modules beside them that they import.

    Many files are read part by part, so that memory holds the trees of one part at a time. With `judge`, which goes to the
    process that reads a part, what rules say of each part: facts of 1,000 files take as long to hand over as to judge.
    """
    files = python_files(paths)
    if len(files) < FEW:
        return read_files(files, judge)
    parts = list(_parts(files))
    read = partial(_read_part, judge=judge)
    if (os.cpu_count() or 1) < PROCESSES or threading.active_count() > 1:
        return _merged(map(read, parts))
    try:
        with ReadingPool(PROCESSES) as pool:
            reading = [pool.submit(read, part) for part in parts]
            return _merged(found.result() for found in reading)
    except (BrokenProcessPool, OSError):
        return _merged(map(read, parts))


@dataclass(frozen=True, slots=True)
class _Part:
    """Files whose imports lead to none of another part; `trains` is whether one of them may train on several ranks."""

    files: list[Path]
    trains: bool


def _read_part(part: _Part, judge: Judge | None) -> Reading:
    if not part.trains:
        return read_apart(part.files, judge)
    reading = read_files(part.files, judge)
    gc.collect()  # finds next to nothing, in little time: a ring of objects that a change brings would grow part by part
    return reading


def _merged(readings: Iterable[Reading]) -> Reading:
    """One reading of several; a module that two of them have is taken once, and from the one that has its facts."""
    modules: dict[str, Module] = {}
    programs: list[Program] = []
    unreadable: list[tuple[str, str]] = []
    judged: list[tuple[Outcome, ...]] = []
    for reading in readings:
        for module in reading.code.modules:
            known = modules.get(module.file)
            if known is None or not known.functions:
                modules[module.file] = module
        programs += reading.code.programs
        unreadable += reading.unreadable
        judged += reading.judged
    code = TrainingCode(modules=tuple(modules.values()), programs=tuple(programs))
    return Reading(code, tuple(unreadable), tuple(judged))


def _parts(files: Sequence[Path]) -> Iterator[_Part]:
    """The files in parts of about equal size: first those of programs that train, the largest first."""
    groups = sorted(_groups(files), key=lambda group: (not group.trains, -group.size, group.files[0]))
    for trains, together in itertools.groupby(groups, key=lambda group: group.trains):
        part: list[Path] = []
        size = 0
        for group in together:
            part += group.files
            size += group.size
            if size >= MOST_BYTES:
                yield _Part(sorted(part), trains)
                part, size = [], 0
        if part:
            yield _Part(sorted(part), trains)


@dataclass(slots=True)
class _Group:
    """Files that import each other."""

    files: list[Path] = field(default_factory=list)
    size: int = 0
    trains: bool = False


def _groups(files: Sequence[Path]) -> list[_Group]:
    named = {str(file) for file in files}
    project = Project(
        sources={file: Source(file, [], "") for file in named},
        load=lambda file: Source(file, [], "") if os.path.isfile(file) else None,  # noqa: PTH113 - strings throughout
    )
    leader: dict[str, str] = {}
    size: dict[str, int] = {}
    trains: set[str] = set()

    def find(file: str) -> str:
        leader.setdefault(file, file)
        while leader[file] != file:
            leader[file] = leader[leader[file]]
            file = leader[file]
        return file

    for file in sorted(named):
        text = _text(file)
        size[file] = len(text)
        if may_train(text):
            trains.add(file)
        for name in {part for each in _imported(text) for part in prefixes(each)}:  # `import a.b` reads a/__init__.py
            other = project.module(name, file)
            if other is not None:
                leader[find(other)] = find(file)
            if other is not None and other not in named:
                trains.add(file)  # what stands in a file that was not named is not known here
    groups: dict[str, _Group] = {}
    for path in files:
        group = groups.setdefault(find(str(path)), _Group())
        group.files.append(path)
        group.size += size[str(path)]
        group.trains |= str(path) in trains
    return list(groups.values())


def _text(file: str) -> str:
    """The text of a file; of a notebook with each text of its JSON on lines of its own."""
    try:
        text = read_regular(Path(file)).decode(errors="replace")
    except OSError:
        return ""
    return text.replace('"', "\n").replace("\\n", "\n") if file.endswith(".ipynb") else text


def _imported(text: str) -> set[str]:
    """The names of modules that a text may import, without parsing it."""
    found: set[str] = set()
    for statement in _import_statements(text):
        base, names, plain = statement.groups(default="")
        if plain:
            found.update(part.split()[0] for part in plain.split(",") if part.split())
        else:
            found.add(base)
            joint = "" if base.endswith(".") else "."
            found.update(f"{base}{joint}{name}" for name in re.findall(r"\w+", _COMMENT.sub("", names)))
    return found


def _import_statements(text: str) -> Iterator[re.Match[str]]:
    """Where the pattern of imports matches. Only lines with the word are tried, which takes a tenth of the time."""
    end = 0
    while (word := text.find("import", end)) >= 0:
        newline = text.rfind("\n", max(end - 1, 0), word)
        first = newline >= 0 or not end  # in its line, behind what has matched
        found = _IMPORT.match(text, newline + 1) if first else None
        if found is not None:
            yield found
        end = word + 1 if found is None else found.end()

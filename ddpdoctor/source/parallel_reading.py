"""Reads many files with two processes: files that import each other stay together."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from ddpdoctor.evidence.training_code import Module, Program, TrainingCode
from ddpdoctor.launch.reading_pool import ReadingPool
from ddpdoctor.regular_file import read_regular
from ddpdoctor.source.project import Project, Source
from ddpdoctor.source.training_code import Reading, python_files, read_files

FEW = 100  # below that starting processes costs more than it saves
PROCESSES = 2
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+\(?([\w, \t]*)|import[ \t]+([\w., \t]+))", re.MULTILINE
)


def read_training_code(paths: Sequence[Path]) -> Reading:
    """The facts about the Python files at `paths` and about the modules beside them that they import."""
    files = python_files(paths)
    if len(files) < FEW or (os.cpu_count() or 1) < PROCESSES or threading.active_count() > 1:
        return read_files(files)
    parts = _parts(files)
    try:
        with ReadingPool(PROCESSES) as pool:
            reading = [pool.submit(read_files, part) for part in parts]
            return _merged(found.result() for found in reading)
    except (BrokenProcessPool, OSError):
        return read_files(files)


def _merged(readings: Iterable[Reading]) -> Reading:
    """One reading of several; a module that two of them have is taken once, and from the one that has its facts."""
    modules: dict[str, Module] = {}
    programs: list[Program] = []
    unreadable: list[tuple[str, str]] = []
    for reading in readings:
        for module in reading.code.modules:
            known = modules.get(module.file)
            if known is None or not known.functions:
                modules[module.file] = module
        programs += reading.code.programs
        unreadable += reading.unreadable
    code = TrainingCode(modules=tuple(modules.values()), programs=tuple(programs))
    return Reading(code, tuple(unreadable))


def _parts(files: Sequence[Path]) -> list[list[Path]]:
    """The files in as many parts as there are processes, about equal in bytes, imports within one part."""
    parts: list[list[Path]] = [[] for _ in range(PROCESSES)]
    sizes = [0] * PROCESSES
    groups = sorted(_groups(files), key=lambda group: (-sum(size for _, size in group), group[0][0]))
    for group in groups:
        least = sizes.index(min(sizes))
        parts[least] += [file for file, _ in group]
        sizes[least] += sum(size for _, size in group)
    return [sorted(part) for part in parts]


def _groups(files: Sequence[Path]) -> list[list[tuple[Path, int]]]:
    texts = {str(file): _text(file) for file in files}
    project = Project(sources={file: Source(file, [], "") for file in texts})
    leader = {file: file for file in texts}

    def find(file: str) -> str:
        while leader[file] != file:
            leader[file] = leader[leader[file]]
            file = leader[file]
        return file

    for file, text in texts.items():
        for name in _imported(text):
            other = project.module(name, file)
            if other is not None and other in leader:
                leader[find(other)] = find(file)
    groups: dict[str, list[tuple[Path, int]]] = {}
    for file, text in texts.items():
        groups.setdefault(find(file), []).append((Path(file), len(text)))
    return list(groups.values())


def _text(file: Path) -> str:
    try:
        return read_regular(file).decode(errors="replace")
    except OSError:
        return ""


def _imported(text: str) -> set[str]:
    """The names of modules that a text may import, without parsing it."""
    found: set[str] = set()
    for base, names, plain in _IMPORT.findall(text):
        if plain:
            found.update(part.split()[0] for part in plain.split(",") if part.split())
        else:
            found.add(base)
            joint = "" if base.endswith(".") else "."
            found.update(f"{base}{joint}{part.split()[0]}" for part in names.split(",") if part.split())
    return found

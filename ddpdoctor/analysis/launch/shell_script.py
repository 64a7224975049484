"""What a launch script says: its `#SBATCH` options, its variables, and its lines without comments and continuations.

Shell is read line by line, not executed: what stands in variables is taken as written, and what a script prints is no part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.launch.env_overrides import Overwritten, overwritten
from ddpdoctor.evidence.scripts import ScriptFile, ScriptFiles

_SHORT = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task"}
_OPTION = re.compile(r"^#SBATCH\s+(?:--([\w-]+)|-([A-Za-z]))(?:[=\s]*([^\s#]+))?")
_ASSIGNMENT = re.compile(r"(?:^|(?<=[\s;&(,'\"]))([A-Z_]+)=(\"[^\"]*\"|'[^']*'|\$\([^)]*\)|[^\s;&)]*)")
_PRINTED = re.compile(r"^\s*(?:(?:echo|printf)\b|cat\s*<<)")
_HERE_DOCUMENT = re.compile(r"^\s*cat\s*<<-?\s*[\"']?(\w+)[\"']?\s*$")
_BEGINS = re.compile(r"^\s*(?:if|case)\b")
_ENDS = re.compile(r"(?:^|;)\s*(?:fi|esac)\b")
_ONLY_IF = re.compile(r"^\s*(?:\[|test\b)")
_TORCHRUN = re.compile(r"\btorchrun\b|\btorch\.distributed\.(?:run|launch)\b|\baccelerate launch\b")


@dataclass(frozen=True, slots=True)
class ShellLine:
    """One logical line: continuations joined, comments gone; `number` is where it begins.

    `conditional` is True between `if` and `fi`, in a `case`, and behind a test.
    """

    number: int
    text: str
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """A `#SBATCH` option or a variable, with its value as written, without quotes."""

    name: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class Program:
    """A Python program that a script starts, and the variables that it overwrites."""

    path: str
    overwrites: tuple[Overwritten, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchScript:
    """One script, with the programs that it starts. `batch` is True where it is one for sbatch.

    `variables` are those that it always sets, each with the value that it sets last.
    """

    path: str
    batch: bool
    options: tuple[Setting, ...]
    variables: tuple[Setting, ...]
    lines: tuple[ShellLine, ...]
    programs: tuple[Program, ...] = ()

    def option(self, name: str) -> Setting | None:
        """The last `#SBATCH` option of this name."""
        return next((option for option in reversed(self.options) if option.name == name), None)

    def found(self, pattern: str) -> Iterator[tuple[ShellLine, re.Match[str]]]:
        """Every line in which the pattern occurs."""
        for line in self.lines:
            if match := re.search(pattern, line.text):
                yield line, match

    def always(self, pattern: str) -> Iterator[tuple[ShellLine, re.Match[str]]]:
        """The same, of the lines that no condition guards."""
        return ((line, match) for line, match in self.found(pattern) if not line.conditional)

    def overwritten(self, *names: str) -> Iterator[tuple[Program, Overwritten]]:
        """What its programs do to these variables."""
        for program in self.programs:
            for each in program.overwrites:
                if each.name in names:
                    yield program, each

    @property
    def torchrun(self) -> ShellLine | None:
        """The first line that starts torchrun, or one of its other names."""
        return next((line for line in self.lines if _TORCHRUN.search(line.text)), None)

    @property
    def nodes(self) -> int:
        """The most nodes that the script asks for, as far as it says so in numbers; 1 where it does not."""
        asked = self.option("nodes")
        numbers = [asked.value.rpartition("-")[2]] if asked else []
        numbers += [match[1] for _, match in self.found(r"--nnodes[=\s]+(?:\d+:)?(\d+)")]
        numbers += [match[1] for _, match in self.found(r"\bsrun\b.*?\s(?:-N\s*|--nodes[=\s])(\d+)")]
        return max((int(number) for number in numbers if number.isdecimal()), default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchScripts:
    """The scripts that start something of torch's, in the order read."""

    scripts: tuple[LaunchScript, ...]


def derive(files: ScriptFiles) -> LaunchScripts:
    """Every script, read."""
    programs: dict[str, list[Program]] = {}
    for program in files.programs:
        programs.setdefault(program.started_by, []).append(Program(program.path, overwritten(program.text)))
    return LaunchScripts(scripts=tuple(_read(file, tuple(programs.get(file.path, ()))) for file in files.files))


def _read(file: ScriptFile, programs: tuple[Program, ...]) -> LaunchScript:
    lines = tuple(_logical_lines(file.text))
    options = tuple(_options(file.text))
    return LaunchScript(
        path=file.path,
        batch=bool(options),
        options=options,
        variables=_variables(lines),
        lines=lines,
        programs=programs,
    )


def _variables(lines: Iterable[ShellLine]) -> tuple[Setting, ...]:
    always = (line for line in lines if not line.conditional)
    last = {
        match[1]: Setting(match[1], match[2].strip("\"'"), line.number)
        for line in always
        for match in _ASSIGNMENT.finditer(line.text)
        if match[1] not in match[2]  # PORT=$((PORT + 1)) still begins with what was set before
    }
    return tuple(last.values())


def _logical_lines(text: str) -> Iterator[ShellLine]:
    """Every line that is run, and whether a condition guards it."""
    depth = 0
    until: str | None = None  # the last word of a text that goes to the terminal
    for line in _joined_lines(text):
        if until is not None:
            until = None if line.text.strip() == until else until
            continue
        if here := _HERE_DOCUMENT.match(line.text):
            until = here[1]
        depth += bool(_BEGINS.match(line.text))
        if not _PRINTED.match(line.text):
            yield ShellLine(line.number, line.text, conditional=depth > 0 or bool(_ONLY_IF.match(line.text)))
        depth = max(0, depth - bool(_ENDS.search(line.text)))


def _joined_lines(text: str) -> Iterator[ShellLine]:
    begun = 0
    parts: list[str] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(^|\s)#.*$", "", raw)
        begun = begun if parts else number
        parts.append(line.rstrip().removesuffix("\\"))
        if not line.rstrip().endswith("\\"):
            yield ShellLine(begun, " ".join(parts))
            parts = []
    if parts:
        yield ShellLine(begun, " ".join(parts))


def _options(text: str) -> Iterator[Setting]:
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _OPTION.match(line):
            yield Setting(match[1] or _SHORT.get(match[2], match[2]), match[3] or "", number)

"""Reads Python training code: the files that are named, what they import from beside them, and the facts about all of it."""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ddpdoctor.analysis.training_code.program_files import files_together
from ddpdoctor.evidence.remarks import Remark
from ddpdoctor.evidence.training_code import EnvironmentSetting, Module, Place, TrainingCode
from ddpdoctor.model import Outcome
from ddpdoctor.regular_file import read_regular
from ddpdoctor.source.dataflow.evaluator import Evaluator
from ddpdoctor.source.dataflow.origins import At
from ddpdoctor.source.dataflow.values import DEEPEST, FRAMES
from ddpdoctor.source.facts.function_facts import FunctionFacts
from ddpdoctor.source.facts.guards import value_of
from ddpdoctor.source.facts.options import options_of
from ddpdoctor.source.folders import folders_below, identity
from ddpdoctor.source.names.framework_names import FRAMEWORK_PARTS, FRAMEWORKS
from ddpdoctor.source.program.files_that_matter import files_that_matter
from ddpdoctor.source.program.index import Index
from ddpdoctor.source.program.program_code import ProgramCode
from ddpdoctor.source.program.programs import distributed_programs
from ddpdoctor.source.program.project import Project, Source
from ddpdoctor.source.program.reading import Loader, all_sources, sources_in
from ddpdoctor.source.program.shared_values import SharedValues
from ddpdoctor.source.program.unused_parts import UnusedParts
from ddpdoctor.source.program.wrapped_models import makers_of_data, makers_of_models
from ddpdoctor.source.python_text import Unreadable
from ddpdoctor.source.remarks import remarks_in
from ddpdoctor.source.statement_lines import comments_of_python
from ddpdoctor.source.syntax.scopes import Block, RawCall, Scope

Judge: TypeAlias = Callable[[TrainingCode], "tuple[Outcome, ...]"]
"""What rules say of a part of the training code."""
SUFFIXES = (".py", ".ipynb", ".md")
_QUOTED = re.compile(r"[\"']([A-Z][A-Z0-9_]{2,39})[\"']")
_OF_ENVIRON = re.compile(r"(?:\w{1,80}\.)?environ\['(\w{1,80})'\]")


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading Python files gave."""

    code: TrainingCode
    """The facts about modules and programs."""
    unreadable: tuple[tuple[str, str], ...]
    """Of each file that could not be read its path and the reason."""
    judged: tuple[tuple[Outcome, ...], ...] = ()
    """What rules say of each part of the code, where they were asked; of the code itself only the comments are kept then."""


def python_files(paths: Sequence[Path]) -> list[Path]:
    """The files at `paths` that may hold Python: those that are named, and in folders those with its suffixes.

    Hidden folders and those of installed packages are left out. A file of several names is there once, by the first.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(_below(path))
        elif path.suffix in SUFFIXES:
            found.append(path)
    first: dict[tuple[int, int] | str, Path] = {}
    for path in found:
        first.setdefault(identity(path), path)
    return list(first.values())


def _below(folder: Path) -> Iterator[Path]:
    for top, files in folders_below(folder):
        yield from (top / name for name in files if name.endswith(SUFFIXES))


def read_files(files: Sequence[Path], judge: Judge | None = None) -> Reading:
    """The facts about Python files and about the modules beside them that they import, or what rules say of them."""
    unreadable: list[tuple[str, str]] = []
    sources: dict[str, Source] = {}
    with without_gc():
        for path in files:
            found, reason = _read(path)
            sources |= {source.file: source for source in found}
            if reason:
                unreadable.append((str(path), reason))
        project = Project(sources=sources, load=Loader())
        reading = judged_by(judge, facts(project), tuple(unreadable))
        project.release()
        return reading


def judged_by(judge: Judge | None, code: TrainingCode, unreadable: tuple[tuple[str, str], ...]) -> Reading:
    """The facts, or what rules say of them."""
    if judge is None:
        return Reading(code, unreadable)
    comments = (Module(file=module.file, remarks=module.remarks) for module in code.modules)
    return Reading(TrainingCode(modules=tuple(comments)), unreadable, (judge(code),))


def read_apart(files: Sequence[Path], judge: Judge | None) -> Reading:
    """As `read_files`, of files that neither train on several ranks nor belong to what does: nothing of them is kept."""
    modules: list[Module] = []
    unreadable: list[tuple[str, str]] = []
    with without_gc():
        for path in files:
            found, reason = _read(path, walked=False)
            modules += [Module(file=source.file, remarks=_remarks(source)) for source in found]
            unreadable += [(str(path), reason)] if reason else []
    return judged_by(judge, TrainingCode(modules=tuple(modules)), tuple(unreadable))


def _read(path: Path, *, walked: bool = True) -> tuple[list[Source], str]:
    """The modules in a file, or why it cannot be read."""
    try:
        return list(sources_in(str(path), read_regular(path), walked=walked)), ""
    except OSError as error:
        return [], error.strerror or "cannot be read"
    except Unreadable as reason:
        return [], str(reason)


def read_texts(texts: Mapping[str, str]) -> TrainingCode:
    """The facts about modules that are given as text, by file name."""
    sources = {source.file: source for file, text in texts.items() for source in sources_in(file, text.encode())}
    return facts(Project(sources=sources))


class without_gc:  # noqa: N801 - used as a statement
    """Trees hold no cycles that are dropped meanwhile: collecting among them costs half of the time."""

    def __enter__(self) -> None:
        self.was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self.was_on:
            gc.enable()


def facts(project: Project) -> TrainingCode:
    """The facts about all modules of a project that take part in training on several ranks."""
    with _deep_stack():
        return _facts(project)


@contextmanager
def _deep_stack() -> Iterator[None]:
    """Room for questions within each other, as deep as they are followed."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEPEST * FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _facts(project: Project) -> TrainingCode:
    reachable: dict[str, Source] = {}
    index = Index(project)
    while fresh := [source for source in all_sources(project) if source.file not in reachable]:
        for source in fresh:  # a dotted name in one of them can lead to a module that nothing imports
            reachable[source.file] = source
            index.add(source)
    index.link()
    programs = distributed_programs(project)
    wanted = {file for program in programs for file in program.files}
    shared_values = SharedValues(index)
    scopes = [scope for file in sorted(wanted) for scope in reachable[file].scopes]
    for scope in scopes:
        shared_values.enter(scope)
    code = ProgramCode(
        project,
        index,
        near=files_together(programs),
        programs=tuple({frozenset(program.files): None for program in programs}),
        wrapped=makers_of_models(index, scopes),
        drawn_from=makers_of_data(index, scopes),
    )
    code.remember_makers(scopes)
    values = Evaluator(code)
    started = frozenset(key for key, sites in index.sites.items() if any(site.spawned for site in sites))
    maker, unused = FunctionFacts(values, started), UnusedParts(project, code.near)
    matter = files_that_matter((reachable[file] for file in wanted), project) | {program.root for program in programs}
    modules = tuple(
        _module(source, maker, unused, full=source.file in wanted, matters=source.file in matter)
        for source in reachable.values()
    )
    values.release()
    return TrainingCode(modules=modules, programs=tuple(programs))


def _remarks(source: Source) -> tuple[Remark, ...]:
    return tuple(remarks_in(source.text, source.place, comments_of_python))


def _module(source: Source, maker: FunctionFacts, unused: UnusedParts, *, full: bool, matters: bool) -> Module:
    remarks = _remarks(source)
    if not full:
        as_saved = "load_state_dict" in source.text and _CHANGES_KEYS.search(source.text) is None
        loads = (call for scope in source.scopes for call in maker.loads(scope)) if as_saved else ()
        return Module(file=source.file, remarks=remarks, loads=tuple(loads))
    parts = tuple(unused.of(source))
    functions = tuple(each for scope in source.scopes for each in maker.of(scope)) if matters or parts else ()
    return Module(
        file=source.file,
        functions=functions,
        options=tuple(options_of(source, maker.values)),
        settings=tuple(_settings(source, maker)),
        reads=tuple(sorted(set(_QUOTED.findall(source.text)))),
        words=tuple(sorted(_words(source, unused))),
        frameworks=tuple(sorted(_frameworks(source))),
        data_modules=tuple(
            scope.name
            for scope in source.scopes
            if scope.is_class and maker.values.project.is_a(scope, "LightningDataModule")
        ),
        main="__main__" in source.text,
        remarks=remarks,
        unused=parts,
    )


_CHANGES_KEYS = re.compile(r"module\.[\"']|DataParallel|strip|prefix")
"""What stands where the keys of a wrapper's weights are changed before they are loaded."""
_REPLACES_PARAMETERS = re.compile(r"""["']params["']|param_groups(?: =|\.)""")
"""What stands where the groups of an optimizer get other parameters, and not only another learning rate."""


def _words(source: Source, unused: UnusedParts) -> set[str]:
    found: set[str] = set()
    for scope in source.scopes:
        for call in scope.calls:
            name = call.method
            if name not in {"requires_grad_", "destroy_process_group"} or not _is_idle(call, name, scope, unused):
                found.add(name)
            for keyword in call.node.keywords:
                if keyword.arg:
                    found.add(f"{keyword.arg}=")
            if call.last in {"getattr", "__init__"}:
                found |= _words_of_objects(call.node)
    found.update(word for word in ("exitcode", "sentinel") if word in source.text)
    if "param_groups" in source.text and _REPLACES_PARAMETERS.search(source.text):
        found.add("param_groups")
    return found - {""}


def _is_idle(call: RawCall, name: str, scope: Scope, unused: UnusedParts) -> bool:
    """Whether a call does not do what its word is asked for: it unfreezes nothing, or stands in a function that nothing calls.

    A function that also makes the process group is no clean-up that was forgotten.
    """
    if name == "requires_grad_":
        return _freezes(call.node)
    if any(other.last == "init_process_group" for other in scope.calls):
        return False
    return unused.is_function(scope)


def _freezes(node: ast.Call) -> bool:
    """Whether `requires_grad_(False)` is called: the word is asked for where parameters may be unfrozen."""
    return len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value is False


def _words_of_objects(node: ast.Call) -> set[str]:
    """The attribute that `getattr` takes of an object; `__init__()` where an object is made anew."""
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(asked)), *_]):
            return {asked}
        case ast.Call(func=ast.Attribute(attr="__init__", value=ast.Name()), args=[ast.Call(), *_]):
            return {"__init__()"}  # `optimizer.__init__(model.parameters())`
    return set()


def _frameworks(source: Source) -> set[str]:
    found: set[str] = set()
    for scope in source.scopes:
        for full in scope.imports.values():
            first, _, rest = full.partition(".")
            if first not in FRAMEWORKS:
                continue
            name = "fabric" if first == "lightning" and _is_fabric_alone(source) else FRAMEWORKS[first]
            parts = FRAMEWORK_PARTS.get(name)
            if parts is None or not rest or any(part in rest for part in parts):
                found.add(name)
    return found


def _is_fabric_alone(source: Source) -> bool:
    """Whether a file takes of Lightning only Fabric, which leaves the loop and its metrics to the program."""
    return "Fabric" in source.text and not any(
        word in source.text for word in ("LightningModule", "Trainer", "LightningCLI")
    )


def _settings(source: Source, maker: FunctionFacts) -> Iterator[EnvironmentSetting]:
    for scope in source.scopes:
        for key, definitions in scope.definitions.items():
            name = _OF_ENVIRON.fullmatch(key) if "environ[" in key else None
            if name is None:
                continue
            for definition in definitions:
                file, line = source.place(definition.line)
                at = At(scope, definition.order, definition.block)
                guards = maker.guards.around(definition.block, definition.order, scope)
                handler = any(guard.form == "except" for guard in guards)
                asks = any("environ" in guard.test or name[1] in guard.test for guard in guards) or _alone(
                    definition.block, maker, scope
                )
                always = not asks and not handler and all(guard.state for guard in guards if guard.by_rank is None)
                yield EnvironmentSetting(
                    place=Place(file=file, line=line, column=1, function=scope.name),
                    name=name[1],
                    value=value_of(maker.values, definition.value, at),
                    always=always,
                )


def _alone(block: Block, maker: FunctionFacts, scope: Scope) -> bool:
    """Whether an earlier branch of the same `if` asks for a launcher's variables: here there is no launcher."""
    for at in block.chain():
        before = at.node if at.form in {"if", "else"} and at.branch else None
        while isinstance(before, ast.If) and before.test is not at.test:
            if "environ" in maker.values.text(before.test, scope):
                return True
            before = before.orelse[0] if len(before.orelse) == 1 else None
    return False

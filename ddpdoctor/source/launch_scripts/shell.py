"""Reads shell scripts with tree-sitter: their commands, variables and options for a scheduler. Nothing is run.

What the script itself determines is replaced: `$N` after `N=4`, an array of arguments, a function that is called, the text
that `bash -c` or `eval` gets. A text in single quotes that a task of srun runs is read as the task's own shell reads it.
Another script that is at hand is read where this one sources or runs it; what stands in it counts for the line that does so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ddpdoctor.evidence.scripts import Command, Script, Setting
from ddpdoctor.source.launch_scripts.batch_options import BATCH_SHELL, batch_options, of_the_batch_shell
from ddpdoctor.source.launch_scripts.here_documents import document_text, here_document, written_file
from ddpdoctor.source.launch_scripts.shell_programs import (
    PRINTS,
    REMOTE_SHELLS,
    SHELLS,
    SOURCES,
    is_command_flag,
    runs_elsewhere,
    script_among,
    variables_given,
)
from ddpdoctor.source.launch_scripts.shell_syntax import (
    BRANCHES,
    LOOPS,
    TESTS,
    TRANSPARENT,
    WORDS,
    ShellUnreadable,
    assigned_below,
    node_text,
    parsed_shell,
)
from ddpdoctor.source.launch_scripts.shell_words import UnknownExpansion, Variables, text_of, unquoted, words_of
from ddpdoctor.source.launch_scripts.submitted_scripts import as_comment, exported_by, handed_to_a_job, submits, wrapped

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_DEPTH = 120  # nested statements; people write ten
MOST_LOOPS = 8  # nested loops whose counters are looked for; people write three
MOST_TEXTS = 6  # a text for a shell within a text for a shell
MOST_COMMANDS = 2_000  # of one script, functions counted at each call
MOST_CHARACTERS = 1 << 17  # of all texts for shells in a script


def read_script(path: str, text: str, other: Callable[[str], str | None] = lambda _: None) -> Script:
    """The facts about one script; `other` gives the text of another one by its name in this one, where it is at hand.

    Raises:
        ShellUnreadable: the parser is not installed, or the text is no script that a person writes.
    """
    root = parsed_shell(text)
    reader = _Reader(other=other)
    return reader.script(path, root)


def read_command(text: str, line: int) -> tuple[tuple[Command, ...], tuple[Setting, ...]]:
    """The commands and variables of a text that a container's shell runs; lines count from `line`.

    Raises:
        ShellUnreadable: the parser is not installed, or the text is no script that a person writes.
    """
    reader = _Reader(first_line=line)
    reader.run(parsed_shell(text))
    reader.uncalled()
    return tuple(reader.commands), tuple(reader.settings)


@dataclass
class _Reader:
    """Walks one script, and the texts in it that other shells run, in the order in which they run."""

    first_line: int = 1
    settings: list[Setting] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    variables: Variables = field(default_factory=Variables)
    functions: dict[str, tuple[Node, int, bool]] = field(default_factory=dict)
    """The body, the line from which its lines count, and whether it stands in another script."""
    called: set[str] = field(default_factory=set)
    running: tuple[str, ...] = ()
    conditional: bool = False
    loops: int = 0
    """The loops around what is being read."""
    within: tuple[str, ...] = ()
    texts: int = 0
    depth: int = 0
    read: list[int] = field(default_factory=lambda: [0])
    """The lengths of the texts for shells that were read."""
    other: Callable[[str], str | None] = lambda _: None
    """The text of another script, where it is at hand."""
    written: dict[str, str] = field(default_factory=dict)
    """The texts of the scripts that this one writes itself, `cat > run.sh <<EOF`, by their names as written."""
    called_in: int = 0
    """The line that runs the other script that is being read; 0 in the script itself."""
    submitted: list[tuple[_Reader, str, str]] = field(default_factory=list)
    """The batch scripts in this one: the reader, the text, and the options of sbatch as a comment of it."""
    exported: set[str] = field(default_factory=set)
    """The variables that what this script starts has, too."""
    exports_all: bool = False
    """Whether `set -a` makes each variable one of them."""

    def script(self, path: str, root: Node, asked: str = "") -> Script:
        """All of a script, with the batch scripts in it; `asked` are options that its caller gave, as a comment."""
        comments = [(node_text(node), self._line(node)) for node in root.named_children if node.type == "comment"]
        scheduler, options = batch_options([*comments, (asked, self.first_line)] if asked else comments)
        if scheduler == "Slurm":
            self.variables.known.update(of_the_batch_shell(options))
        self.run(root)
        self.uncalled()
        inner: list[Script] = []
        for reader, text, of_sbatch in self.submitted:
            with contextlib.suppress(ShellUnreadable):
                inner.append(reader.script(path, parsed_shell(text), of_sbatch))
        return Script(
            path=path,
            scheduler=scheduler,
            options=options,
            variables=tuple(self.settings),
            commands=tuple(self.commands),
            submitted=tuple(inner),
        )

    def _submit(self, words: Sequence[str], line: int, text: str, own: Sequence[Setting]) -> None:
        """Keep a text that `sbatch` runs as a job; it has the variables that this script exports, and its `own`."""
        self.read[0] += len(text)
        if self.called_in or self.within or self.texts >= MOST_TEXTS or self.read[0] > MOST_CHARACTERS:
            return
        known = handed_to_a_job(words, [each for each in self.settings if each.name in self.exported], own)
        reader = _Reader(first_line=line, settings=known, texts=self.texts + 1, read=self.read)
        self.submitted.append((reader, text, as_comment(words)))

    def run(self, node: Node) -> None:
        """One statement with all below it; what is nested too deeply is left out."""
        if self.depth >= MOST_DEPTH or len(self.commands) >= MOST_COMMANDS:
            return
        self.depth += 1
        kind = node.type
        if kind == "command":
            self._command(node)
        elif kind == "variable_assignment":
            self._assign(node)
        elif kind == "declaration_command":
            self.exported |= exported_by(node)
            for child in node.named_children:
                if child.type == "variable_assignment":
                    self._assign(child)
        elif kind == "function_definition":
            self._define(node)
        elif kind == "list":
            self._list(node)
        elif kind == "redirected_statement":
            self._redirected(node)
        elif kind in BRANCHES:
            self._guarded(node.named_children)
        elif kind in LOOPS:
            self._loop(node)
        elif kind in TRANSPARENT or kind == "variable_assignments":
            for child in node.named_children:
                self.run(child)
        self.depth -= 1

    def uncalled(self) -> None:
        """The functions that nothing in the script calls: another one may."""
        for name, (body, first_line, elsewhere) in list(self.functions.items()):
            if name not in self.called and not elsewhere:
                self.first_line = first_line
                self._guarded([body])

    def _guarded(self, nodes: Sequence[Node]) -> None:
        before, self.conditional = self.conditional, True
        for node in nodes:
            self.run(node)
        self.conditional = before

    def _loop(self, node: Node) -> None:
        variable = node.child_by_field_name("variable")
        if variable is not None:
            self.variables.forget(node_text(variable))
        for name in assigned_below(node) if self.loops < MOST_LOOPS else ():
            self.variables.forget(name)  # in the second round it has another value
        self.loops += 1
        for child in node.named_children:
            self.run(child)
        self.loops -= 1

    def _list(self, node: Node) -> None:
        """`a && b`: b follows a; behind a test, and behind `||`, it may not run."""
        left, operator, right = node.children[0], node.children[1].type, node.children[-1]
        self.run(left)
        tested = left
        while tested.type == "list":
            tested = tested.children[-1]
        if operator == "||" or tested.type in TESTS or node_text(tested).startswith("test "):
            self._guarded([right])
        else:
            self.run(right)

    def _define(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[node_text(name)] = body, self.first_line, bool(self.called_in)

    def _redirected(self, node: Node) -> None:
        """A command with its redirections; a shell that reads a here-document runs it."""
        more = [child for child in node.named_children if child.type in WORDS]
        for child in node.named_children:
            if child.type == "command":
                words = [*self._words(child), *(word for each in more for word in words_of(each, self.variables))]
                document = here_document(node)
                if document is not None and (name := written_file(words, node, self.variables)):
                    self.written[name.removeprefix("./")] = document_text(document, self.variables)
                if document is not None and words and words[-1] in {*SHELLS, "-s", "-"}:
                    self._shell([word for word in words if word not in {*SHELLS, "-s", "-"}], document, document)
                else:
                    self._command(child, more, document)
            elif child.type not in WORDS:
                self.run(child)

    def _words(self, node: Node) -> list[str]:
        named = node.child_by_field_name("name")
        arguments = [child for child in node.named_children if child.type in WORDS]
        first = words_of(named.named_children[0], self.variables) if named is not None and named.named_children else []
        return [*first, *(word for each in arguments for word in words_of(each, self.variables))]

    def _command(self, node: Node, more: Sequence[Node] = (), document: Node | None = None) -> None:
        words = [*self._words(node), *(word for each in more for word in words_of(each, self.variables))]
        kept, before = self.variables.copy(), len(self.settings)
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign(child, only_for_command=bool(words))
        self._hand_over(words, self._line(node))
        if words[:1] == ["set"] and not {"-a", "allexport"}.isdisjoint(words):
            self.exports_all = "+o" not in words
        if submits(words) and (text := wrapped(words)):
            self._submit(words, self._line(node), text, self.settings[before:])
        elif submits(words) and document is not None:
            line = self.first_line + int(document.start_point[0])
            self._submit(words, line, document_text(document, kept), self.settings[before:])
        if words and not self._defined(words, self._line(node)) and not self._other_script(words, self._line(node)):
            arguments = [child for child in node.named_children if child.type in WORDS]
            if not self._text_for_a_shell(words, arguments) and words[0] not in PRINTS:
                self.commands.append(
                    Command(
                        words=tuple(words),
                        line=self._line(node),
                        conditional=self.conditional,
                        in_loop=self.loops > 0,
                        within=self.within,
                        variables=tuple(self.settings[before:]),
                        elsewhere=bool(self.called_in),
                    )
                )
        self.variables = kept if words else self.variables

    def _hand_over(self, words: Sequence[str], line: int) -> None:
        """The variables that a command gives to what it starts."""
        for name, _, value in (each.partition("=") for each in variables_given(words)):
            self._set(name, value, value, line, only_for_command=True)

    def _set(self, name: str, value: str, written: str, line: int, *, only_for_command: bool) -> None:
        self.settings.append(
            Setting(
                name=name,
                value=value,
                written=written,
                line=line,
                conditional=self.conditional,
                in_task=bool(self.within),
                only_for_command=only_for_command,
                elsewhere=bool(self.called_in),
            )
        )

    def _defined(self, words: Sequence[str], line: int) -> bool:
        """Run the function of this script that the words call; one of another script counts for the line of the call."""
        name = words[1] if words[0] in {"exec", "time", "command"} and len(words) > 1 else words[0]
        if name not in self.functions or name in self.running:
            return name in self.functions
        self.called.add(name)
        body, first_line, elsewhere = self.functions[name]
        before = self.running, self.variables.given, self.first_line, self.called_in
        self.running, self.first_line = (*self.running, name), first_line
        self.called_in = self.called_in or (line if elsewhere else 0)
        self.variables.given = tuple(words[words.index(name) + 1 :])
        self.run(body)
        self.running, self.variables.given, self.first_line, self.called_in = before
        return True

    def _other_script(self, words: Sequence[str], line: int) -> bool:
        """Read the script that the words source or run; whether there is one."""
        at = script_among(words)
        if at is None or self.texts >= MOST_TEXTS:
            return False
        text = self.written.get(words[at].removeprefix("./")) or self.other(words[at])
        if text is None:
            return False
        self.read[0] += len(text)
        if self.read[0] > MOST_CHARACTERS or len(self.commands) >= MOST_COMMANDS:
            return False
        around = words[:at]
        while around and around[-1] in {*SHELLS, "exec", "env", "time", "nohup"}:
            around = around[:-1]
        before = self.texts, self.called_in, self.variables, self.within, self.depth
        self.texts, self.called_in, self.depth = self.texts + 1, self.called_in or line, 0
        if words[0] not in SOURCES:
            self.variables = self.variables.copy()
            self.within = tuple(around) or self.within
            self.variables.given = tuple(words[at + 1 :])
            self.variables.known.update((str(number), word) for number, word in enumerate(words[at + 1 :], start=1))
            for name in BATCH_SHELL if around else ():
                self.variables.forget(name)
        with contextlib.suppress(ShellUnreadable):
            self.run(parsed_shell(text))
        if words[0] in SOURCES:
            self.texts, self.called_in, _, _, self.depth = before
        else:
            self.texts, self.called_in, self.variables, self.within, self.depth = before
        return True

    def _text_for_a_shell(self, words: Sequence[str], arguments: Sequence[Node]) -> bool:
        """Read `... bash -c TEXT`, `eval TEXT`, `ssh HOST TEXT` as the shell that gets the text reads it."""
        if words[0] == "eval" and arguments:
            self._shell((), arguments[0] if len(arguments) == 1 else None, " ".join(words[1:]), same=True)
            return True
        for index, word in enumerate(words[:-1]):
            if word in SHELLS:
                flag = next((at for at in range(index + 1, len(words) - 1) if is_command_flag(words[at])), None)
                if flag is None or any(not each.startswith("-") for each in words[index + 1 : flag]):
                    return False
                text = next((node for node in arguments if text_of(node, self.variables) == words[flag + 1]), None)
                self._shell(words[:index], text, words[flag + 1])
                return True
        if words[0] in REMOTE_SHELLS and arguments and arguments[-1].type in {"string", "raw_string"}:
            self._shell(words[:-1], arguments[-1], words[-1])
            return True
        return False

    def _shell(self, around: Sequence[str], node: Node | None, text: Node | str, *, same: bool = False) -> None:
        """Read a text that another shell runs, below the command `around`; `same` where it is this shell."""
        if self.texts >= MOST_TEXTS:
            return
        first = self.first_line + (node.start_point[0] if node is not None else 0)
        if isinstance(text, str):
            source = (
                text
                if node is None
                else text_of(node, self.variables, UnknownExpansion.MARK if not same else UnknownExpansion.KEEP)
            )
        else:
            source = document_text(text, self.variables)
        self.read[0] += len(source)
        if self.read[0] > MOST_CHARACTERS or len(self.commands) >= MOST_COMMANDS:
            return
        elsewhere = runs_elsewhere(around)
        inner = replace(
            self,
            first_line=first,
            variables=self.variables.copy(),
            within=tuple(around) if elsewhere else self.within,
            texts=self.texts + 1,
            depth=0,
        )
        if elsewhere:
            for name in BATCH_SHELL:
                inner.variables.forget(name)
        with contextlib.suppress(ShellUnreadable):
            inner.run(parsed_shell(source))
        self.called |= inner.called

    def _assign(self, node: Node, *, only_for_command: bool = False) -> None:
        named, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if named is None:
            return
        name = node_text(named)
        if value is not None and value.type == "array":
            items = [word for child in value.named_children for word in words_of(child, self.variables)]
            self.variables.set_array(name, items, known=not self.conditional)
            return
        expanded = text_of(value, self.variables) if value is not None else ""
        written = unquoted(node_text(value)) if value is not None else ""
        self.variables.set(name, expanded, known=not self.conditional)
        if self.exports_all:
            self.exported.add(name)
        self._set(name, expanded, written, self._line(node), only_for_command=only_for_command)

    def _line(self, node: Node) -> int:
        return self.called_in or self.first_line + int(node.start_point[0])

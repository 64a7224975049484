"""The changes to the text of a Python program that fixes ask for: libcst finds and writes the expressions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from ddpdoctor.model import Edit, Fix
from ddpdoctor.source.fixes.fix_conditions import called, initialised, lines_of, name_of_distributed

if TYPE_CHECKING:
    import libcst
    from libcst.metadata import CodeRange

_LINE_OF_COMMA = re.compile(r"[ \t]{0,200}\r?\n")
_BEFORE_CODE = re.compile(r"[ \t]{0,200}(?=[^\s#])")


class LibcstMissing(Exception):  # noqa: N818 - a reason, shown to the user
    """libcst is not installed; the message says how to install it."""


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """One part of the text with what takes its place."""

    start: int
    """The index of its first character."""
    end: int
    """The index behind its last character."""
    text: str
    """What takes its place."""


class ChangedProgram:
    """One module with the places of its nodes."""

    def __init__(self, text: str) -> None:
        try:
            import libcst
            from libcst.metadata import MetadataWrapper, PositionProvider
        except ImportError:
            raise LibcstMissing("--fix and --diff need libcst: `pip install 'ddpdoctor[fix]'`") from None
        self.text = text
        self.nodes: list[tuple[libcst.CSTNode, CodeRange]] = []
        try:
            wrapper = MetadataWrapper(libcst.parse_module(text), unsafe_skip_copy=True)
            places = wrapper.resolve(PositionProvider)
        except (libcst.ParserSyntaxError, RecursionError):
            return  # no place is found, and no fix made
        self.module = wrapper.module
        self.newline = self.module.default_newline
        self.nodes = list(places.items())
        self.starts = [0]
        for line in lines_of(text):
            self.starts.append(self.starts[-1] + len(line))

    def changes(self, fix: Fix) -> Iterator[ProgramChange]:
        """What the fix changes; nothing where its place is not found."""
        if not self.nodes:
            return
        match fix.edit:
            case Edit.ADD_ARGUMENT:
                yield from self._add_argument(fix)
            case Edit.REMOVE_ARGUMENT:
                yield from self._remove_argument(fix)
            case Edit.REPLACE_ARGUMENT:
                yield from self._replace_argument(fix)
            case Edit.FIRST_IN_LOOP:
                yield from self._first_in_loop(fix)
            case Edit.SORT:
                yield from self._sort(fix)
            case Edit.CALL:
                yield from self._around(fix, lambda code: f"{code}()")
            case Edit.END_PROCESS_GROUP:
                yield from self._end_process_group()
            case Edit.RANK_ZERO_FIRST:
                yield from self._rank_zero_first(fix)
            case Edit.TORCHRUN:
                return
            case _:
                assert_never(fix.edit)

    def with_imports(self, text: str, made: Sequence[Fix]) -> str:
        """The text with `import os` where a fix needs it, below the docstring and `from __future__`."""
        if not any("os." in fix.new for fix in made) or re.search(r"^import os\b|^import .*\bos\b", text, re.MULTILINE):
            return text
        tree = ast.parse(text)
        after = 0
        for statement in tree.body:
            documents = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            if not documents and not future:
                break
            after = statement.end_lineno or after
        lines = lines_of(text)
        first = next((at for at in range(after, len(lines)) if re.match(r"import |from ", lines[at])), after)
        return "".join([*lines[:first], f"import os{self.newline}", *lines[first:]])

    def _at(self, line: int, column: int) -> int:
        """The index of a place, from libcst's lines and columns."""
        return self.starts[line - 1] + column

    def _span(self, place: CodeRange) -> tuple[int, int]:
        return self._at(place.start.line, place.start.column), self._at(place.end.line, place.end.column)

    def _column(self, fix: Fix) -> int:
        """The column in characters; Python counts bytes."""
        line = self.text[self.starts[fix.line - 1] : self.starts[fix.line]] if 0 < fix.line < len(self.starts) else ""
        return len(line.encode()[: (fix.column or 1) - 1].decode(errors="ignore"))

    def _call(self, fix: Fix) -> tuple[libcst.Call, CodeRange] | None:
        return max(self._calls(fix), key=lambda each: self._span(each[1])[1], default=None)

    def _calls(self, fix: Fix) -> list[tuple[libcst.Call, CodeRange]]:
        """All calls that begin where a fix stands: `Net().to(device)` is two."""
        import libcst

        column = self._column(fix)
        return [
            (node, place)
            for node, place in self.nodes
            if isinstance(node, libcst.Call) and (place.start.line, place.start.column) == (fix.line, column)
        ]

    def _add_argument(self, fix: Fix) -> Iterator[ProgramChange]:
        found = self._call(fix)
        if found is None:
            return
        call, place = found
        start, end = self._span(place)
        code = self.text[start:end]
        if not code.endswith(")") or any(
            each.keyword is not None and each.keyword.value == fix.new.partition("=")[0] for each in call.args
        ):
            return
        if not call.args:
            yield ProgramChange(end - 1, end - 1, fix.new)
            return
        last = self._span_of(call.args[-1].value)
        yield ProgramChange(last, last, f", {fix.new}")

    def _span_of(self, node: libcst.CSTNode) -> int:
        """The index behind a node, its parentheses counted."""
        import libcst

        end = next(self._span(place)[1] for each, place in self.nodes if each is node)
        around = node.rpar if isinstance(node, libcst.BaseExpression) else ()
        for _ in around:
            end = self.text.index(")", end) + 1
        return end

    def _remove_argument(self, fix: Fix) -> Iterator[ProgramChange]:
        found = self._call(fix)
        if found is None:
            return
        call, _ = found
        for index, argument in enumerate(call.args):
            if argument.keyword is not None and argument.keyword.value == fix.old:
                start, end = self._start_of(argument), self._span_of(argument.value)
                first, last, comma = start, end, self._comma_of(argument)
                if index + 1 < len(call.args):
                    last = self._start_of(call.args[index + 1])
                elif index:
                    first = self._span_of(call.args[index - 1].value)
                elif comma is not None:
                    last = comma + 1
                if "#" in self.text[first:last]:  # the comments around it stay
                    first, last = start, end
                    if comma is not None and "#" in self.text[end:comma]:
                        yield ProgramChange(*self._span_of_comma(comma), "")
                    elif comma is not None:
                        last = self._span_of_comma(comma)[1]
                yield ProgramChange(first, last, "")

    def _comma_of(self, argument: libcst.Arg) -> int | None:
        """The index of the comma behind an argument, whatever comments stand before it."""
        import libcst

        if not isinstance(argument.comma, libcst.Comma):
            return None
        before = argument.comma.whitespace_before
        return next(self._span(place)[1] for each, place in self.nodes if each is before)

    def _span_of_comma(self, comma: int) -> tuple[int, int]:
        """A comma with the blanks before code behind it, or with its line where it stands alone in one."""
        start = self.text.rfind("\n", 0, comma) + 1
        line = _LINE_OF_COMMA.match(self.text, comma + 1)
        if line and not self.text[start:comma].strip():
            return start, line.end()
        blanks = _BEFORE_CODE.match(self.text, comma + 1)
        return comma, blanks.end() if blanks else comma + 1

    def _start_of(self, node: libcst.CSTNode) -> int:
        return next(self._span(place)[0] for each, place in self.nodes if each is node)

    def _replace_argument(self, fix: Fix) -> Iterator[ProgramChange]:
        """Of the calls that begin in one place, `Net(rank).to(rank)`, the longest that has the argument itself."""
        for node, _ in sorted(self._calls(fix), key=lambda each: self._span(each[1]), reverse=True):
            given = [id(each.value) for each in node.args]
            spans = [self._span(place) for each, place in self.nodes if id(each) in given]
            if same := [(start, end) for start, end in spans if self.text[start:end] == fix.old]:
                yield from (ProgramChange(start, end, fix.new) for start, end in same)
                return

    def _expressions(self, code: str, inside: tuple[int, int]) -> list[tuple[int, int]]:
        """The places of an expression within a part of the text, the name of an argument left out."""
        import libcst

        spans = {
            self._span(place)
            for node, place in self.nodes
            if isinstance(node, libcst.Name | libcst.Attribute | libcst.Call | libcst.BaseString | libcst.List)
        }
        names = {
            self._span(place)[0]
            for node, place in self.nodes
            if isinstance(node, libcst.Arg) and node.keyword is not None
        }
        return sorted(
            (start, end)
            for start, end in spans
            if inside[0] <= start and end <= inside[1] and self.text[start:end] == code and start not in names
        )

    def _around(self, fix: Fix, change: Callable[[str], str]) -> Iterator[ProgramChange]:
        """Around the expression `old` of the line, where it stands once."""
        line = self._at(fix.line, 0)
        found = self._expressions(fix.old, (line, len(self.text)))
        first = (
            [(start, end) for start, end in found if start < self._at(fix.line + 1, 0)]
            if fix.line < len(self.starts)
            else []
        )
        if len(first) == 1:
            start, end = first[0]
            yield ProgramChange(start, end, change(self.text[start:end]))

    def _sort(self, fix: Fix) -> Iterator[ProgramChange]:
        """`sorted()` around the call of this name that begins in the line, where there is one."""
        import libcst

        name = called(fix.old)
        calls = [
            self._span(place)
            for node, place in self.nodes
            if isinstance(node, libcst.Call)
            and place.start.line == fix.line
            and isinstance(node.func, libcst.Name | libcst.Attribute)
            and (node.func.attr if isinstance(node.func, libcst.Attribute) else node.func).value == name
        ]
        if len(calls) == 1:
            start, end = calls[0]
            yield ProgramChange(start, end, f"sorted({self.text[start:end]})")

    def _first_in_loop(self, fix: Fix) -> Iterator[ProgramChange]:
        import libcst

        for node, place in self.nodes:
            if isinstance(node, libcst.For | libcst.While) and place.start.line == fix.line:
                body = node.body
                if isinstance(body, libcst.IndentedBlock) and body.body:
                    first = next(found for each, found in self.nodes if each is body.body[0])
                    start = self._at(first.start.line, 0)
                    indent = self.text[start : start + first.start.column]
                    yield ProgramChange(start, start, f"{indent}{fix.new}{self.newline}")
                return

    def _end_process_group(self) -> Iterator[ProgramChange]:
        """At the end of `if __name__ == "__main__":`, for a process that still has a group."""
        import libcst

        dist = name_of_distributed(self.text)
        for node, place in self.nodes:
            if (
                isinstance(node, libcst.If)
                and "__name__" in self.module.code_for_node(node.test)
                and place.start.column == 0
            ):
                body = node.body
                if not isinstance(body, libcst.IndentedBlock) or not body.body or node.orelse is not None or not dist:
                    return
                first = next(found for each, found in self.nodes if each is body.body[0])
                last = next(found for each, found in self.nodes if each is body.body[-1])
                indent = self.text[self._at(first.start.line, 0) : self._at(first.start.line, first.start.column)]
                end = self.starts[last.end.line] if last.end.column else self._at(last.end.line, 0)
                before = "" if self.text[:end].endswith(("\n", "\r")) else self.newline
                step = self.module.default_indent
                yield ProgramChange(
                    end,
                    end,
                    f"{before}{indent}if {dist}.is_initialized():{self.newline}"
                    f"{indent}{step}{dist}.destroy_process_group(){self.newline}",
                )
                return

    def _rank_zero_first(self, fix: Fix) -> Iterator[ProgramChange]:
        """A barrier for the others before the statement, and one for rank 0 behind it, where a process group is there by then."""
        import libcst

        dist = name_of_distributed(self.text)
        for node, place in self.nodes:
            if not isinstance(node, libcst.SimpleStatementLine) or not place.start.line <= fix.line <= place.end.line:
                continue
            start, end = self._at(place.start.line, 0), self.starts[place.end.line]
            indent = self.text[start : start + place.start.column]
            if (
                not dist
                or not indent
                or not initialised(self.text[:start], indent)
                or not self.text[:end].endswith("\n")
            ):
                return
            step = self.module.default_indent
            first = f"{indent}if {dist}.get_rank() != 0:{self.newline}{indent}{step}{dist}.barrier(){self.newline}"
            behind = f"{indent}if {dist}.get_rank() == 0:{self.newline}{indent}{step}{dist}.barrier(){self.newline}"
            yield ProgramChange(start, start, first)
            yield ProgramChange(end, end, behind)
            return

"""Applies fixes to the Python within other files: cells of notebooks, and blocks of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ddpdoctor.model import Fix
from ddpdoctor.source.notebooks import edited, file_and_cell, with_sources
from ddpdoctor.source.python_text import python_blocks, python_cells

Fixer = Callable[[str, Sequence[Fix]], tuple[str, list[Fix]]]
"""What makes fixes in a text, or says which can be made; returns the text and these."""


def fixed_notebook(text: str, fixes: Sequence[Fix], fixer: Fixer) -> tuple[str, list[Fix]]:
    """As `fixer`, of a notebook whose cells the fixes name; only the text of those cells changes, magics stay.

    Raises:
        LibcstMissing: libcst is not installed.
        ValueError: it is no notebook.
    """
    cells = python_cells(text)
    made: list[Fix] = []

    def change(module: str, lines: Mapping[tuple[int, int], int]) -> str:
        at = {fix: (file_and_cell(fix.file)[1], fix.line) for fix in fixes}
        placed = {replace(fix, line=lines[at[fix]]): fix for fix in fixes if at[fix] in lines}
        result, done = fixer(module, [*placed])
        made.extend(placed[fix] for fix in done)
        return result

    new = edited(cells, change)
    return (with_sources(text, cells, new), made) if new else (text, [])


def fixed_blocks(text: str, fixes: Sequence[Fix], fixer: Fixer) -> tuple[str, list[Fix]]:
    """As `fixer`, of the blocks of Python in a Markdown file; each is a module of its own.

    Raises:
        LibcstMissing: libcst is not installed.
    """
    lines = text.split("\n")
    made: list[Fix] = []
    for block in reversed([*python_blocks(text)]):
        count = block.code.count("\n") + 1
        inside = {
            replace(fix, line=fix.line - block.before): fix for fix in fixes if 0 < fix.line - block.before <= count
        }
        new, done = fixer(f"{block.code}\n", [*inside]) if inside else ("", [])
        if done:
            lines[block.before : block.before + count] = new.removesuffix("\n").split("\n")
            made += [inside[fix] for fix in done]
    return "\n".join(lines), made

"""The lines of a job's own files that overwrite where its launcher wants the ranks to meet."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ddpdoctor.analysis.launch.env_overrides import overwritten, sets_unnamed
from ddpdoctor.evidence.frames import Frame, is_users
from ddpdoctor.evidence.launch import EnvOverwrite, EnvOverwrites
from ddpdoctor.source.stack_lines.source_files import source_bytes

OF_THE_RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT")


def overwrites_of(frames: Iterable[Frame], owner: int | None = None) -> EnvOverwrites | None:
    """What the user's own files among `frames` do to the variables of the rendezvous; None where they do nothing to them.

    With `owner`, only files count that this user may read.
    """
    found = []
    for file in sorted({frame.file for frame in frames if is_users(frame.file)}):
        text = (source_bytes(file, owner) or b"").decode(errors="replace")
        found += [
            EnvOverwrite(
                name=one.name,
                value=one.value,
                file=file,
                line=one.line,
                function=_function_around(text, one.line),
                conditional=one.conditional,
            )
            for one in overwritten(text, conditional=True)
            if one.name in OF_THE_RENDEZVOUS
        ]
        found += [
            EnvOverwrite(name="", value="", file=file, line=line, function=_function_around(text, line))
            for line in sets_unnamed(text)
        ]
    return EnvOverwrites(each=tuple(found)) if found else None


def _function_around(text: str, line: int) -> str:
    """The innermost function around a line of a text that parses."""
    around = [
        (node.lineno, node.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around)[1] if around else "<module>"

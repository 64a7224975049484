"""Evidence is collected because something reads it: every field of every kind of evidence is used by a rule or a report."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import ddpdoctor.evidence
from ddpdoctor.evidence.nccl import NcclLog

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "ddpdoctor" / "evidence"
SHOWN_WHOLE = (NcclLog,)  # `ddpdoctor net --format json` shows each try of NCCL with its logs
FOLDERS = ("ddpdoctor", "probes", "reference_train")


def evidence_types() -> Iterator[type]:
    """All dataclasses that the modules of ddpdoctor.evidence define, the kinds and what they are made of."""
    for module in iter_modules(ddpdoctor.evidence.__path__, "ddpdoctor.evidence."):
        for value in vars(import_module(module.name)).values():
            own = isinstance(value, type) and is_dataclass(value) and value.__module__ == module.name
            if own and value not in SHOWN_WHOLE:
                yield value


def reads(tree: ast.AST) -> set[str]:
    """The attributes that the code gets from something, and those that a `case Class(attribute=...)` looks at."""
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    return found.union(*(node.kwd_attrs for node in ast.walk(tree) if isinstance(node, ast.MatchClass)))


def names_read(sources: list[str], definitions: list[str]) -> set[str]:
    """What `sources` read, and what the methods in `definitions` read that `sources` or methods read by them use."""
    used = set[str]().union(*(reads(ast.parse(source)) for source in sources))
    methods = [
        (node.name, reads(node))
        for source in definitions
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    ]
    while more := set[str]().union(*(read for name, read in methods if name in used)) - used:
        used |= more
    return used


@pytest.fixture(scope="module")
def used() -> set[str]:
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    outside = [path.read_text() for path in files if EVIDENCE not in path.parents]
    return names_read(outside, [path.read_text() for path in sorted(EVIDENCE.glob("*.py"))])


@pytest.mark.parametrize("kind", tuple(evidence_types()), ids=lambda kind: kind.__name__)
def test_every_field_is_read(kind: type, used: set[str]) -> None:
    """By name: a field is not told apart from another class's attribute of the same name."""
    unread = [field.name for field in fields(kind) if field.name not in used]
    assert not unread, (
        f"nothing reads {kind.__name__}.{', '.join(unread)}: show it, let a rule use it, or do not collect it"
    )


def test_a_field_that_only_its_own_class_or_a_writer_mentions_is_not_read() -> None:
    definition = """
class Memory:
    total: int
    used: int
    swapped: int
    def share(self): return self.used / self.total
    def nobody_asks(self): return self.swapped
"""
    written = "memory = Memory(total=1, used=2, swapped=3)\nprint(memory.share())"
    assert names_read([written], [definition]) & {"total", "used", "swapped"} == {"total", "used"}
    assert names_read(["match memory:\n    case Memory(swapped=0): pass"], [definition]) == {"swapped"}

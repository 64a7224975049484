"""Pages, docstrings and comments keep to the terms of the glossary."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
    *sorted((ROOT / "docs" / "findings").glob("*.md")),
]
RECORDED = {"glossary.md", "ward.md"}  # the list itself, and a table of outputs as they were
TABLE = GLOSSARY.read_text().partition("## Words that these terms replaced")[2]
REPLACED = {
    phrase: better.strip()
    for phrases, better in re.findall(r"^\| (?!not )([^|-][^|]*)\|([^|]*)\|$", TABLE, flags=re.MULTILINE)
    for phrase in phrases.strip().split(", ")
}
ANY_REPLACED = re.compile(rf"\b(?:{'|'.join(map(re.escape, REPLACED))})\b")

BANNED_NAMES = set(re.findall(r"`(\w+)`", TABLE.partition("variables do not contain: ")[2].partition("\n")[0]))


def prose(text: str) -> str:
    """The text without code blocks and code spans, on one line, in lower case: a phrase may be broken over two lines."""
    text = re.sub(r"^ *```.*?^ *```|^    .*?$", "", text, flags=re.MULTILINE | re.DOTALL)
    return " ".join(re.sub(r"`[^`\n]*`", "`", text).lower().split())


def replaced_in(text: str) -> dict[str, str]:
    """Each phrase of the glossary's list that stands in `text`, with what to write instead."""
    words = prose(text)
    if not ANY_REPLACED.search(words):
        return {}
    return {phrase: better for phrase, better in REPLACED.items() if re.search(rf"\b{re.escape(phrase)}\b", words)}


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in RECORDED], ids=lambda page: page.name)
def test_a_page_uses_the_terms_of_the_glossary(page: Path) -> None:
    found = replaced_in(page.read_text())
    assert not found, "; ".join(f"not {phrase!r} but {better!r}" for phrase, better in found.items())


def parts_of_names(source: str) -> set[str]:
    """The words in the names that `source` gives to classes, functions, parameters, variables and fields, in lower case."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.Name(id=name):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
    return {word.lower() for name in names for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_names_in_code_keep_to_the_terms_too() -> None:
    files = [file for top in ("ddpdoctor", "probes", "reference_train") for file in (ROOT / top).rglob("*.py")]
    found = {file.relative_to(ROOT).as_posix(): parts_of_names(file.read_text()) & BANNED_NAMES for file in files}
    assert not {file: words for file, words in found.items() if words}


# words of a command line, and echoes of bytes, are what the terms mean in the field
OF_THE_FIELD = {"the words of", "echoes"}


def texts_of(source: str) -> Iterator[str]:
    """The docstrings and comments of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield inspect.cleandoc(node.value.value)
    yield from re.findall(r"# .*", source)


@pytest.mark.parametrize("top", ["ddpdoctor", "probes", "reference_train"])
def test_docstrings_and_comments_keep_to_the_terms_too(top: str) -> None:
    found = {
        file.relative_to(ROOT).as_posix(): words
        for file in (ROOT / top).rglob("*.py")
        if (words := replaced_in("\n\n".join(texts_of(file.read_text()))).keys() - OF_THE_FIELD)
    }
    assert not found


def test_the_list_is_read_and_a_phrase_over_two_lines_is_found() -> None:
    assert REPLACED["standstill"] == "hang, stall, no progress"
    assert replaced_in("After a\nStandstill ...") == {"standstill": "hang, stall, no progress"}
    assert not replaced_in("`standstill`\n```\na standstill\n```\n")
    assert set(replaced_in("the replicas\n  part at step 3")) == {"replicas part"}
    assert "clash" in BANNED_NAMES
    assert parts_of_names("class RankClash:\n    def find(self, WARDEN_PID): ...") >= {"rank", "clash", "warden", "pid"}

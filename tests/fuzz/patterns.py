"""Every regular expression of the package, and the texts on which a backtracking one would take longest."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import ddpdoctor
from ddpdoctor.catalogue import all_rules

try:
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as codes
    import sre_parse as parser

PROGRAMS = {"ddpdoctor.agent.on_path.sitecustomize", "ddpdoctor.__main__"}
CHARACTERS = "a0 .:-_/[(,=\"'\\A#e\t"
MANY = 16  # repetitions beyond which a repeat counts as without end
SIZES = (1200, 4800)
LOOKS_SLOW = 7.0  # the growth of time for four times the size: 4 where linear, 16 where quadratic
SHORT_SECONDS = 2e-4  # below it, growth is the noise of the clock
LONG_SECONDS = 2e-3  # well above what another program on the processor adds
AGAIN = 5  # measurements of what looks slow, of which the shortest counts
TIMES = 16  # how much longer the text is that decides
IS_SLOW = 64.0  # the growth of time for `TIMES` the size: 16 where linear, 256 where quadratic
MOST_CHARACTERS = 100_000  # what takes less than `LONG_SECONDS` here needs no more than 20 nanoseconds a character


@cache
def patterns() -> Mapping[str, re.Pattern[str]]:
    """By where it stands, every pattern: compiled in a module, in a call of `re`, or declared by a rule. Each once."""
    found: dict[str, re.Pattern[str]] = {}
    for info in pkgutil.walk_packages(ddpdoctor.__path__, "ddpdoctor."):
        if info.name in PROGRAMS or ".agent.inside" in info.name or ".callbacks" in info.name:
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            for number, pattern in enumerate(_inside(value)):
                found[f"{info.name}.{name}[{number}]"] = pattern
        for line, text, flags in _in_calls(Path(str(module.__file__))):
            found[f"{info.name}:{line}"] = re.compile(text, flags)
    for rule in all_rules():
        for number, error in enumerate(rule.errors):
            for text in filter(None, (error.regex, error.frames)):
                found[f"{rule.code} error {number} {text[:20]}"] = re.compile(text)
    once = {(pattern.pattern, pattern.flags): (place, pattern) for place, pattern in reversed(found.items())}
    return {f"{place} {pattern.pattern[:60]!r}": pattern for place, pattern in once.values()}


def _inside(value: Any, depth: int = 0) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield (
            re.compile(value.pattern.decode("latin-1"), value.flags & ~re.ASCII | re.UNICODE)
            if isinstance(value.pattern, bytes)
            else value
        )
    elif depth < 4 and isinstance(value, Mapping):
        for item in [*value.keys(), *value.values()]:
            yield from _inside(item, depth + 1)
    elif depth < 4 and isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from _inside(item, depth + 1)
    elif depth < 4 and dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _inside(getattr(value, field.name, None), depth + 1)


def _in_calls(file: Path) -> Iterator[tuple[int, str, int]]:
    text = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if re.search(r"\bre\.\w+\(", text) else ():
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            flags = [name for name in ("VERBOSE", "MULTILINE", "IGNORECASE", "DOTALL") if name in ast.unparse(node)]
            yield node.lineno, node.args[0].value, sum(getattr(re, name) for name in flags)


def slow_on(pattern: re.Pattern[str]) -> tuple[str, float] | None:
    """What a text of more than linear time for `pattern` is made of, and how much longer it takes for `TIMES` the size.

    The clock of a busy or slow machine proves nothing by itself: texts of a few thousand characters only say which attacks
    deserve a measurement that is long enough to be sure of. None where no attack worked.
    """
    for prefix, pump, suffix in attacks(pattern):
        small, large = (prefix + pump * (size // len(pump)) + suffix for size in SIZES)
        if _seconds(pattern, large) < SHORT_SECONDS:  # as almost all
            continue
        longest = max(SHORT_SECONDS, LOOKS_SLOW * _shortest_of(pattern, small, 2))
        if _shortest_of(pattern, large, 2) < longest:
            continue
        growth = _growth(pattern, prefix, pump, suffix)
        if growth > IS_SLOW:
            return f"{prefix!r} + {pump!r} * n + {suffix!r}", growth
    return None


def _growth(pattern: re.Pattern[str], prefix: str, pump: str, suffix: str) -> float:
    """How much longer a search takes in a text of `TIMES` the size; 0 where it is too fast to tell."""
    size = SIZES[0] // len(pump)
    while (small := _shortest_of(pattern, prefix + pump * size + suffix, AGAIN)) < LONG_SECONDS:
        size *= 2
        if size * len(pump) > MOST_CHARACTERS:
            return 0.0
    return _shortest_of(pattern, prefix + pump * (size * TIMES) + suffix, 2) / small


def _shortest_of(pattern: re.Pattern[str], text: str, times: int) -> float:
    return min(_seconds(pattern, text) for _ in range(times))


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    start = time.thread_time()  # not of the threads that other tests of this process have left
    pattern.search(text)
    return time.thread_time() - start


def attacks(pattern: re.Pattern[str]) -> Iterator[tuple[str, str, str]]:
    """Texts to try: what leads to each repeat, what it repeats, and what makes the match fail after it."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    seen = set()
    for prefix, body in _repeats(tree, ""):
        pumps = [character for character in CHARACTERS if _takes(body, character)] or [_shortest(body) or "a"]
        for pump in dict.fromkeys([*pumps, _shortest(body)]):
            for lead, repeated in ((prefix, pump), ("", (prefix + pump) or "a"), ("", pump)):
                for suffix in ("", "\x00", "\n"):
                    if repeated and (lead, repeated, suffix) not in seen:
                        seen.add((lead, repeated, suffix))
                        yield lead, repeated, suffix


def _repeats(nodes: Iterable[Any], prefix: str) -> Iterator[tuple[str, list[Any]]]:
    for op, argument in nodes:
        if op in {codes.MAX_REPEAT, codes.MIN_REPEAT}:
            _, most, body = argument
            if most is codes.MAXREPEAT or most >= MANY:
                yield prefix, list(body)
            yield from _repeats(body, prefix)
        elif op is codes.SUBPATTERN:
            yield from _repeats(argument[-1], prefix)
        elif op is codes.BRANCH:
            for branch in argument[1]:
                yield from _repeats(branch, prefix)
        elif op in {codes.ASSERT, codes.ASSERT_NOT}:
            yield from _repeats(argument[1], prefix)
        prefix += _shortest([(op, argument)])


def _shortest(nodes: Iterable[Any]) -> str:
    """A short text that the nodes match."""
    text = ""
    for op, argument in nodes:
        if op is codes.LITERAL:
            text += chr(argument)
        elif op in {codes.NOT_LITERAL, codes.ANY, codes.IN}:
            text += next((each for each in CHARACTERS + "\nbcdzBZ19~" if _takes([(op, argument)], each)), "a")
        elif op in {codes.MAX_REPEAT, codes.MIN_REPEAT}:
            text += _shortest(argument[2]) * argument[0]
        elif op is codes.SUBPATTERN:
            text += _shortest(argument[-1])
        elif op is codes.BRANCH:
            text += min((_shortest(branch) for branch in argument[1]), key=len)
    return text


def _takes(nodes: list[Any], character: str) -> bool:
    """Whether `character` alone is matched by nodes that match one character."""
    if len(nodes) != 1:
        return False
    op, argument = nodes[0]
    if op is codes.SUBPATTERN:
        return _takes(list(argument[-1]), character)
    if op is codes.BRANCH:
        return any(_takes(list(branch), character) for branch in argument[1])
    if op is codes.LITERAL:
        return ord(character) == argument
    if op is codes.NOT_LITERAL:
        return ord(character) != argument
    if op is codes.ANY:
        return character != "\n"
    if op is codes.IN:
        negated = argument[0][0] is codes.NEGATE
        return any(_in(part, character) for part in argument) != negated
    return False


def _in(part: tuple[Any, Any], character: str) -> bool:
    op, argument = part
    if op is codes.LITERAL:
        return ord(character) == argument
    if op is codes.RANGE:
        return argument[0] <= ord(character) <= argument[1]
    if op is codes.CATEGORY:
        kinds = {
            codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_SPACE: r"\s",
            codes.CATEGORY_NOT_SPACE: r"\S", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_NOT_WORD: r"\W",
        }  # fmt: skip
        return re.match(kinds[argument], character) is not None
    return False

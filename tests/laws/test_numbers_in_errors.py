"""No number in an error text sizes a container, or makes a check raise: logs are written by anybody."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.ranks import RankError, RankExit
from tests.fuzz.patterns import codes, parser, patterns
from tests.laws.test_catalogue import FILES, example

LONG = "9" * 5000  # more digits than `int` takes
MOST_DIGITS = 20  # of what 64 bits hold
JUDGES = ("ddpdoctor.checks.", "ddpdoctor.analysis.", "DDP")
ROOT = Path(__file__).parents[2]
PROGRAM = r"""
import re, resource, sys
from pathlib import Path
from ddpdoctor.catalogue import all_rules
from ddpdoctor.engine import diagnose
from ddpdoctor.symptoms.pattern_texts import texts_of
from ddpdoctor.workflows.diagnose import gather

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
log, tried = Path(sys.argv[1]), 0
for rule in all_rules():
    for text in (text for error in rule.errors if error.regex for text in texts_of(error.regex)[:4]):
        for number in ("400000000", "9" * 5000, "0"):
            for form in ("[rank0]: Traceback (most recent call last):\n[rank0]: RuntimeError: {}\n", "[rank0]: {}\n"):
                log.write_text(form.format(re.sub(r"\d+|…", number, text)))
                for crashed in diagnose(gather([log])).crashed:
                    print(f"{rule.code} {number[:12]} {text[:80]!r}: {crashed}")
                tried += 1
print(tried)
"""


@pytest.mark.slow
def test_absurd_numbers_in_error_texts_cost_nothing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "job.log")],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    *broken, tried = ended.stdout.splitlines()
    assert int(tried) > 500
    assert not broken


def test_no_pattern_captures_a_number_of_any_length() -> None:
    judged = {place: pattern for place, pattern in patterns().items() if place.startswith(JUDGES)}
    assert len(judged) > 200
    assert not [place for place, pattern in judged.items() if _captures_any_number(_parsed(pattern))]


@pytest.mark.parametrize(
    ("pattern", "any_length"),
    [
        (r"rank (\d+)", True), (r"(?:a|rank (?P<rank>[0-9]{2,}))?", True), (r"rank \d+", False),
        (r"(?P<rank>\d{1,18})", False), (r"(?P<after>\d+ ms)", False),
    ],
)  # fmt: skip
def test_the_law_knows_such_a_pattern(pattern: str, any_length: bool) -> None:
    assert _captures_any_number(_parsed(re.compile(pattern))) == any_length


@pytest.mark.parametrize("stem", FILES)
def test_no_number_in_an_error_of_a_case_crashes_a_check(stem: str) -> None:
    for sick in example(stem).SICK:
        for evidence in _with_long_numbers(sick.evidence):
            assert not diagnose(evidence).crashed


def _with_long_numbers(evidence: Evidence) -> Iterator[Evidence]:
    """The evidence with one number after another, in whatever ranks said as they ended, replaced by one of 5,000 digits."""
    ends = [fact for facts in evidence.ranks for fact in facts.facts if isinstance(fact, RankExit)]
    numbers = max((len(re.findall(r"\d+", text)) for end in ends for text in _texts(end)), default=0)
    for number in range(numbers):
        yield replace(
            evidence,
            ranks=tuple(
                replace(facts, facts=tuple(_lengthened(fact, number) for fact in facts.facts))
                for facts in evidence.ranks
            ),
        )


def _texts(end: RankExit) -> Iterator[str]:
    yield from end.tail
    error = end.error
    while error is not None:
        yield error.message
        error = error.cause


def _lengthened(fact: Any, number: int) -> Any:
    if isinstance(fact, RankExit):
        tail = tuple(_with_long(line, number) for line in fact.tail)
        return replace(fact, tail=tail, error=_lengthened(fact.error, number))
    if isinstance(fact, RankError):
        return replace(fact, message=_with_long(fact.message, number), cause=_lengthened(fact.cause, number))
    return fact


def _with_long(text: str, number: int) -> str:
    """The text with its number at this place as one of 5,000 digits."""
    found = [*re.finditer(r"\d+", text)][number : number + 1]
    return f"{text[: found[0].start()]}{LONG}{text[found[0].end() :]}" if found else text


def _parsed(pattern: re.Pattern[str]) -> Iterable[Any]:
    parsed: Iterable[Any] = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    return parsed


def _captures_any_number(nodes: Iterable[Any]) -> bool:
    """Whether a group of the pattern is a run of digits and nothing else, of more than 64 bits hold."""
    for op, argument in nodes:
        if op is codes.SUBPATTERN:
            number, *_, body = argument
            if (number is not None and _is_any_number([*body])) or _captures_any_number(body):
                return True
        elif op in {codes.MAX_REPEAT, codes.MIN_REPEAT}:
            if _captures_any_number(argument[2]):
                return True
        elif op is codes.BRANCH:
            if any(map(_captures_any_number, argument[1])):
                return True
        elif op in {codes.ASSERT, codes.ASSERT_NOT} and _captures_any_number(argument[1]):
            return True
    return False


def _is_any_number(body: list[Any]) -> bool:
    if len(body) != 1 or body[0][0] not in {codes.MAX_REPEAT, codes.MIN_REPEAT}:
        return False
    _, most, ((op, digits), *others) = body[0][1]
    only = op is codes.IN and digits in (
        [(codes.CATEGORY, codes.CATEGORY_DIGIT)],
        [(codes.RANGE, (ord("0"), ord("9")))],
    )
    return only and not others and most > MOST_DIGITS

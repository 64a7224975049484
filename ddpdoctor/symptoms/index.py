"""The index of symptoms and error texts: which findings a line of text can mean, the most likely first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from ddpdoctor.analysis.crashes.error_patterns import ErrorTable, secondary_error
from ddpdoctor.model import Rule
from ddpdoctor.symptoms.pattern_texts import texts_of
from ddpdoctor.symptoms.table import SYMPTOMS
from ddpdoctor.symptoms.words import Words, words_of

NUMBER = re.compile(r"\d+")
CODE = re.compile(r"\bDDP\d{3}\b", re.IGNORECASE)
PER_PLACE = 0.04  # what each place in a symptom's list of findings costs
UNLIKE = 0.42  # texts with a lower similarity to the query are not shown
FAR_BELOW = 0.65  # nor is a finding whose score is below this share of the best one's
LEAST_OF_A_PHRASE = 12  # characters of a symptom that means the same within a long line
# what a wrapper, a part of an error text, and the name or summary of a rule are worth beside an error text itself
WRAPPER, PARTLY, BY_NAME = 0.8, 0.85, 0.75


class MatchedBy(Enum):
    """How a text leads to a finding, the surest way first."""

    CODE = "code"
    """The text names it."""
    LOG = "log"
    """The readers of logs and the rules find it in the text."""
    ERROR_TEXT = "error text"
    """An error text of the rule stands in it."""
    SYMPTOM = "symptom"
    """Its words are those of a symptom."""
    SUMMARY = "summary"
    """Its words are those of the rule's name or summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One finding that a text can mean."""

    rule: Rule
    """The kind of finding."""
    by: MatchedBy
    """How the text leads to it."""
    seen_as: str
    """The symptom or error text that the asked text resembles, or the message of the finding."""
    score: float
    """How likely it is, from 0 to 1; above 1 where the text itself proves it."""
    remedy: str
    """What to do, in the words of the finding where there is one."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A text that can be met, and what it can mean."""

    text: str
    words: frozenset[str]
    codes: tuple[str, ...]
    by: MatchedBy
    factor: float
    phrase: str = ""
    """The text of a symptom in lower case, where it is long enough to mean the same wherever it stands; else empty."""

    def contradicts(self, numbers: frozenset[str]) -> bool:
        """Whether this is an error text with a number of its own, and a line with these numbers has others in place of it."""
        own = frozenset(NUMBER.findall(self.text)) if self.by is MatchedBy.ERROR_TEXT else frozenset()
        return bool(own and numbers) and own.isdisjoint(numbers)


@dataclass(frozen=True, slots=True)
class SymptomIndex:
    """Every symptom, every error text that rules declare, and the names and summaries of all rules."""

    rules: dict[str, Rule]
    """By code."""
    errors: ErrorTable
    """The error texts."""
    words: Words
    """The words of all texts."""
    _entries: tuple[_Entry, ...]

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> SymptomIndex:
        """The index of these rules."""
        rules = [*rules]
        entries = [*_entries(rules)]
        words = Words.of([entry.words for entry in entries])
        return cls({rule.code: rule for rule in rules}, ErrorTable.of(rules), words, tuple(entries))

    def find(self, lines: Sequence[str]) -> tuple[Match, ...]:
        """What these lines can mean, the likeliest first: nothing where they resemble no text of the index."""
        best: dict[str, Match] = {}
        for line in dict.fromkeys(lines):
            for match in self._of_line(line):
                other = best.get(match.rule.code)
                if other is None or match.score > other.score:
                    best[match.rule.code] = match
        found = sorted(best.values(), key=lambda match: (-match.score, match.rule.code))
        return tuple(match for match in found if match.score >= FAR_BELOW * found[0].score)

    def _of_line(self, line: str) -> Iterator[Match]:
        for code in CODE.findall(line):
            if rule := self.rules.get(code.upper()):
                yield Match(rule=rule, by=MatchedBy.CODE, seen_as=rule.summary, score=1.0, remedy=rule.remedy)
        yield from self._error_texts(line)
        kind = secondary_error(line)
        asked = self.words.known(words_of(line))
        lower = line.lower()
        alike: list[tuple[float, _Entry]] = []
        for entry in self._entries:
            same = (kind is not None and entry.text == kind.value) or (entry.phrase and entry.phrase in lower)
            likeness = 1.0 if same else self.words.likeness(asked, entry.words)
            if likeness * entry.factor >= UNLIKE:
                alike.append((likeness, entry))
        numbers = frozenset(NUMBER.findall(line))
        # error texts that have another number than the line: `signal 1` in place of `signal 15`
        other = {code for _, entry in alike if entry.contradicts(numbers) for code in entry.codes}
        for likeness, entry in alike:
            for place, code in enumerate(entry.codes):
                if code in other:
                    continue
                score = likeness * entry.factor * (1 - PER_PLACE * place)
                rule = self.rules[code]
                yield Match(rule=rule, by=entry.by, seen_as=entry.text, score=score, remedy=rule.remedy)

    def _error_texts(self, line: str) -> Iterator[Match]:
        """Every rule that declares a text in `line`: the longest text tells the most."""
        for known in self.errors.all_in(line):
            worth = (WRAPPER if known.pattern.wrapper else 1.0) + min(len(known.text), 100) / 1000
            rule = self.rules[known.code]
            remedy = known.pattern.remedy or rule.remedy
            yield Match(rule=rule, by=MatchedBy.ERROR_TEXT, seen_as=known.text, score=worth, remedy=remedy)


def _entries(rules: Iterable[Rule]) -> Iterator[_Entry]:
    for symptom in SYMPTOMS:
        for text in (symptom.text, *symptom.also):
            yield _entry(text, symptom.codes, MatchedBy.SYMPTOM, 1.0, seen_as=symptom.text)
    for rule in rules:
        yield _entry(rule.name, (rule.code,), MatchedBy.SUMMARY, BY_NAME, seen_as=rule.summary)
        yield _entry(rule.summary, (rule.code,), MatchedBy.SUMMARY, BY_NAME)
    for rule, texts in error_texts(rules):
        for text in texts:
            yield _entry(text, (rule.code,), MatchedBy.ERROR_TEXT, PARTLY)


def _entry(text: str, codes: tuple[str, ...], by: MatchedBy, factor: float, *, seen_as: str = "") -> _Entry:
    is_phrase = by is MatchedBy.SYMPTOM and len(text) >= LEAST_OF_A_PHRASE and " " in text
    phrase = text.lower() if is_phrase else ""
    return _Entry(seen_as or text, frozenset(words_of(text)), codes, by, factor, phrase)


def error_texts(rules: Iterable[Rule]) -> Iterator[tuple[Rule, tuple[str, ...]]]:
    """Of each rule that declares error texts those texts, as a log shows them."""
    for rule in rules:
        texts = {text.lower(): text for error in rule.errors for text in texts_of(error.regex)}
        if texts:
            yield rule, tuple(texts.values())


def sign_of(rule: Rule) -> str:
    """What shows that it is this finding and no other one with the same symptoms."""
    return rule.shown_by or _OF_THE_FAMILY[rule.code[3]]


_OF_THE_FAMILY = {
    "1": "`ddpdoctor env` on the host, or `ddpdoctor smoke` on all hosts",
    "2": "`ddpdoctor net`, started on all nodes in the same way",
    "3": "`ddpdoctor hang` while the job hangs, `ddpdoctor watch -- COMMAND` from its start",
    "4": "`ddpdoctor diagnose` on the logs of all ranks",
    "5": "`ddpdoctor verify-sync` with the script",
    "6": "`ddpdoctor watch -- COMMAND`, and `ddpdoctor allreduce-bench` for the network",
    "7": "`ddpdoctor lint PATH` on the program or launch script shows the line",
}

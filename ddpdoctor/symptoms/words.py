"""How alike two short texts are in their words: case, endings, word order and common synonyms do not matter."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

MAX_CHARACTERS = 2_000  # of one line; the words of a longer one say nothing together
SURE = 0.84  # similarity of spelling from which a word that no text has stands for one that a text has
_WORD = re.compile(r"(?<![\w.])-\d+|\d+|[a-z]+")
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_APOSTROPHE = re.compile(r"(?<=[a-z])['\u2019](?=[a-z])")
_NO_MEANING = (
    "a an the of in on at to is are was be it its i my we our and or but with for by from as this that these when while if so "
    "across do does did not no has have had get gets got there then than which who what why how me you your can will just very "
    "rank ranks job training train torch pytorch python ddp error"
)
_STOP = frozenset(_NO_MEANING.split())
_ENDINGS = ("ings", "ing", "ied", "ed", "es", "s", "ly")
_SYNONYMS = {
    word: canonical
    for canonical, words in {
        "hang": "hangs hung stuck stick freeze freezes frozen froze deadlock deadlocks stall stalls stalled block blocked blocks",
        "gpu": "gpus cuda device devices card cards",
        "fail": "fails failed failure crash crashes crashed crashing broken",
        "kill": "kills killed",
        "die": "dies died dead",
        "differ": "differs different differing diverge diverges unequal",
        "slow": "slower slowly",
        "validation": "validate validating eval evaluation evaluating evaluate val",
        "weight": "weights parameter parameters params param",
        "same": "identical equal",
        "first": "1st initial begin beginning start",
        "several": "multiple many two multi 2 4 8",
        "one": "single 1 another",
        "machine": "node nodes host hosts machines",
        "step": "iteration iterations iter iters steps",
        "exit": "exits exited exitcode exiting quit",
        "memory": "ram mem",
        "timeout": "timeouts timed",
        "gradient": "grads grad gradients",
        "accuracy": "acc",
        "checkpoint": "checkpoints ckpt",
        "process": "processes proc",
        "sync": "syncs syncing synced synchronize synchronized synchronizing synchronise synchronised synchronization",
    }.items()
    for word in words.split()
}


def words_of(text: str) -> tuple[str, ...]:
    """The words of `text` that carry meaning, in lower case, without endings; numbers keep their sign."""
    text = _CAMEL_CASE.sub(" ", text[:MAX_CHARACTERS])
    text = _APOSTROPHE.sub("", text.lower().replace("_", " "))
    return tuple(stem for word in _WORD.findall(text) if word not in _STOP and (stem := _stem(word)))


@lru_cache(maxsize=1 << 12)
def _stem(word: str) -> str:
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    word = word.removesuffix("e") if len(word) > 4 else word
    return _SYNONYMS.get(word, word)


@dataclass(frozen=True, slots=True)
class Words:
    """What is known of the words of a collection of texts."""

    weights: dict[str, float]
    """By word, how much it tells: the rarer, the more."""

    @classmethod
    def of(cls, texts: Collection[frozenset[str]]) -> Words:
        """The words of these texts, each given by its own words."""
        counts = Counter(word for text in texts for word in text)
        return cls({word: math.log(1 + len(texts) / count) for word, count in counts.items()})

    def known(self, words: Iterable[str]) -> frozenset[str]:
        """`words`; in place of a misspelt one the word that it stands for."""
        return frozenset(word if word in self.weights else self._nearest(word) for word in words)

    def _nearest(self, word: str) -> str:
        if len(word) < 4 or not word.isalpha():
            return word
        near = difflib.get_close_matches(word, self.weights, n=1, cutoff=SURE)
        return near[0] if near else word

    def likeness(self, asked: frozenset[str], text: frozenset[str]) -> float:
        """From 0 for no common word to 1 for the same words: the harmonic mean of the shares that are common."""
        common = self._weight(asked & text)
        if not common:
            return 0.0
        return 2 * common / (self._weight(asked) + self._weight(text))

    def _weight(self, words: frozenset[str]) -> float:
        return sum(self.weights.get(word, UNKNOWN) for word in words)


UNKNOWN = 3.0  # what a word tells that no text has: the user meant something with it

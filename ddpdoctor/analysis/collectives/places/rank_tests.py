"""What a test in the source asks of the rank, and which ranks take which branch of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ddpdoctor.evidence.source import Condition, Jump
from ddpdoctor.whole_numbers import whole_number

Sides = tuple[Sequence[int], Sequence[int]]
"""The ranks at one place, and those at the other."""

_TELLS_RANKS_APART = re.compile(
    r"rank|master|main_?process|process_(?:index|zero)|chief|is_(?:main|root|primary|leader|coordinator)|global_zero"
    r"|should_(?:save|log)$|\bgpu(?:_id|_index)? ?[!=]= ?\d",
    re.IGNORECASE,
)
# frameworks ask for the rank in other tests as well, which all ranks answer alike: is there a rank at all, which group
TELLS_THE_FIRST_RANK = re.compile(
    r"process_zero|main_process|global_zero|rank_zero|should_(?:save|log)\b|\brank(?:\(\))? [!=]= 0$"
)
_TELLS_A_JOB_FROM_A_PROCESS = re.compile(r"^(?:int\(.+\)|[^ ]+) (?:[!=]= -1|>= 0|> -1|< 0|is (?:not )?None)$")

_ALIKE_IN_A_JOB = re.compile(
    r"^\({0,4}(?:not )?\({0,4}"
    r"(?:'WORLD_SIZE' (?:not )?in os\.environ|int\(os\.environ(?:\[|\.get\()'WORLD_SIZE'(?:, '?\d'?)?[\])]\)"
    r"|[\w.]{0,80}(?:is_initialized|is_dist\w{0,40}|is_available|world_?size|\bdistributed|num_(?:processes|gpus|nodes))"
    r"(?:\([\w., =]{0,80}\))?)(?: (?:[!=]=|[<>]=?|is(?: not)?) (?:\d{1,9}|None|True|False))?\){0,4}$",
    re.IGNORECASE,
)
"""What all ranks of a job answer alike: such a name or a call, or one compared with a constant, and nothing else."""

_ONE_RANK = re.compile(
    r"(?:rank|process_index|process_id|\bgpu(?:_id)?)\w*(?:\(\))? (?P<how>==|!=) (?P<rank>\d{1,18})\b"
)
_NAMES = re.compile(r"[^\W\d][\w.]*")
_A_COUNT = re.compile(
    r"^(?:not|and|or|int|[a-z])$|epoch|step|iter|idx|index|num|max|min|len|every|total|limit|world_size|start|resume",
    re.IGNORECASE,
)
_JOINS_TESTS = re.compile(r"\b(?:and|or)\b")
_ALTERNATIVES = re.compile(r"\bor\b")
_THE_FIRST = re.compile(
    r"(?P<not>\bnot [\w.]{0,80})?\b(?:is_(?:local_|world_|global_)?(?:main_process|process_zero|zero|primary|master|main)"
    r"|is_global_zero|master_process|main_process)\b"
)


def tells_ranks_apart(condition: Condition) -> bool:
    """Whether ranks take different branches by what they are, as under `if rank == 0`."""
    return is_rank_test(condition.test, by_rank=condition.by_rank)


def is_rank_test(test: str, *, by_rank: bool) -> bool:
    """Whether ranks answer this test of the source differently by what they are, as `rank == 0`."""
    return (by_rank or bool(_TELLS_RANKS_APART.search(test))) and not _TELLS_A_JOB_FROM_A_PROCESS.search(test)


def selects_ranks(test: str) -> bool:
    """Whether a test compares the rank with a number or asks for the first rank, perhaps among others: see `ranks_under`."""
    return bool(_ONE_RANK.search(test) or _THE_FIRST.search(test))


def names_a_rank(test: str) -> bool:
    """Whether that is all that the test asks: `rank == 1`, `not is_main_process()`."""
    return selects_ranks(test) and not _JOINS_TESTS.search(test)


def lets_pass_named_ranks(jump: Jump) -> bool:
    """Whether nobody but ranks that its test names takes this jump, and these perhaps not always: `rank == 1 and loss > 9`."""
    named = selects_ranks(jump.test) and not jump.branch and not _ALTERNATIVES.search(jump.test)
    return named or names_a_rank(jump.test)


def ranks_under(condition: Condition, ranks: Sequence[int]) -> tuple[int, ...]:
    """Those of `ranks` in this branch of a test that compares the rank with a number, or asks for the first one.

    A local rank counts as the rank. Empty where the test does neither.
    """
    apart = _told_apart(condition)
    return tuple(rank for rank in ranks if (rank == apart.rank) is apart.here) if apart is not None else ()


def exempted_rank(condition: Condition) -> int | None:
    """The rank that alone is not to come here: below `if rank != N`, in the `else` of `if rank == N` or behind its `continue`.

    None under other tests.
    """
    apart = _told_apart(condition)
    return apart.rank if apart is not None and not apart.here else None


class _Apart(NamedTuple):
    """The rank that a test tells from all others."""

    rank: int | None
    """None where its number is too large to be one."""
    here: bool
    """Whether it is that rank which comes to this branch, and not the others."""


def _told_apart(condition: Condition) -> _Apart | None:
    """What a test that compares the rank with a number, or asks for the first one, says of this branch; None of other tests."""
    one, first = _ONE_RANK.search(_asked_by(condition)), _THE_FIRST.search(_asked_by(condition))
    if one is not None:
        return _Apart(whole_number(one["rank"]), (one["how"] == "==") is condition.holds)
    if first is not None:
        return _Apart(0, (first["not"] is None) is condition.holds)
    return None


def _asked_by(condition: Condition) -> str:
    """The test by what its names hold, where that is known, else as written."""
    return condition.selects or condition.test


def asks_for_counts(test: str) -> bool:
    """Whether a test asks only how often something was done, by the names in it, which all ranks answer alike: `i < start`."""
    return all(_A_COUNT.search(name) for name in _NAMES.findall(test))


def lets_pass_only(jump: Jump, ranks: Sequence[int], others: Sequence[int]) -> bool:
    """Whether the test of this statement is one of the rank that all of `ranks` pass, and none of the others."""
    if not selects_ranks(jump.test):
        return False
    return {*ranks_under(jump.condition, sorted({*ranks, *others}))} == {*ranks}


def parts(jump: Jump, sides: Sides | None) -> bool:
    """Whether all ranks of the second side take this jump, and none of the first, where its test selects ranks.

    True where the test selects none, or the sides are not known.
    """
    return sides is None or not selects_ranks(jump.test) or lets_pass_only(jump, sides[1], sides[0])


def is_the_same_everywhere(condition: Condition) -> bool:
    """Whether all ranks of a job answer this test alike: the script's main, and whether there are several ranks."""
    if tells_ranks_apart(condition):
        return False
    tests = (test.strip() for test in _JOINS_TESTS.split(condition.test))
    return all("__name__" in test or _ALIKE_IN_A_JOB.search(test) for test in tests)

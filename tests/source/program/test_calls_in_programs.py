"""Who calls a function: found once, and in the smallest programs alone where there are many calls."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import cast

from ddpdoctor.source.program.calls_in_programs import MOST_SITES, CallsInPrograms
from ddpdoctor.source.program.index import Index, Site
from ddpdoctor.source.program.project import Project, Source
from ddpdoctor.source.syntax.scopes import Scope
from ddpdoctor.source.syntax.walk import walk


@dataclass(eq=False)
class _Counted(Index):
    """An index that counts how often it is asked for the calls of a function."""

    asked: int = 0

    def sites_near(self, function: Scope, near: frozenset[str]) -> list[Site]:
        """The calls, counted."""
        self.asked += 1
        return super().sites_near(function, near)


def _calls(texts: dict[str, str], programs: tuple[frozenset[str], ...]) -> tuple[CallsInPrograms, _Counted, Scope]:
    sources = {file: Source(file, walk(ast.parse(text), file), text) for file, text in texts.items()}
    index = _Counted(Project(sources=sources))
    for source in sources.values():
        index.add(source)
    together = frozenset().union(*programs)
    return (
        CallsInPrograms(index, dict.fromkeys(together, together), programs),
        index,
        cast("Scope", sources["helper.py"].scopes[0].functions["helper"]),
    )


CALLER = "from helper import helper\n" + "helper()\n" * (MOST_SITES + 1)
TEXTS = {
    "helper.py": "def helper():\n    return 1\n",
    "train.py": "from helper import helper\nhelper()\n",
    "test.py": CALLER,
}
SMALL, LARGE = frozenset({"helper.py", "train.py"}), frozenset({"helper.py", "train.py", "test.py"})


def test_calls_are_looked_for_once() -> None:
    """Every parameter of a function asks for them, and a helper of a large project has thousands."""
    calls, index, helper = _calls(TEXTS, (SMALL, LARGE))
    assert calls.of(helper) is calls.of(helper)
    assert index.asked == 1


def test_of_many_calls_those_of_the_smallest_programs_count() -> None:
    """Tests call a function more often than the program does itself."""
    calls, _, helper = _calls(TEXTS, (SMALL, LARGE))
    assert [site.caller.file for site in calls.of(helper)] == ["train.py"]
    calls, _, helper = _calls(TEXTS, (LARGE,))
    assert len(calls.of(helper)) == MOST_SITES + 2


def test_few_calls_count_all() -> None:
    """Where there are few, each is looked at."""
    few = TEXTS | {"test.py": "from helper import helper\nhelper()\n"}
    calls, _, helper = _calls(few, (SMALL, LARGE))
    assert sorted(site.caller.file for site in calls.of(helper)) == ["test.py", "train.py"]

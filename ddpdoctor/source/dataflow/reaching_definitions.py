"""Which assignments of a name can be the last before a place: the nearest one that is always passed, and what may follow it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from ddpdoctor.source.syntax.scopes import Block, Definition

END = 1 << 30  # after everything: what another function sees of a module's variable
LOOPS = frozenset({"for", "while"})
MOST_BEFORE = (
    100  # definitions before a place, and after it, that are looked at: generated code has thousands of one name
)
_ORDER = attrgetter("order")


def reaching(definitions: Sequence[Definition], order: int, block: Block) -> tuple[list[Definition], bool]:
    """The definitions that may hold at `order` in `block`, nearest first, and whether there is always one of them.

    `definitions` are all of one name, by their order.
    """
    if len(definitions) == 1 and (only := only_definition(definitions, order, block)) is not None:
        return [only], True
    found: list[Definition] = []
    killer: Definition | None = None
    branches: dict[int, set[int]] = {}
    here = bisect_left(definitions, order, key=_ORDER)
    for definition in reversed(definitions[max(0, here - MOST_BEFORE) : here]):
        there = definition.block
        passed = there is block or not there.depth  # in the same block, or in none
        if not passed and (there.excludes(block) or _has_left(there, block)):
            continue
        found.append(definition)
        if not definition.kills:
            continue
        if passed or _always(there, block) or _all_branches(there, block, branches):
            killer = definition
            break
    if order != END and here < len(definitions) and _in_loop(block):
        later = definitions[here : here + MOST_BEFORE]
        found += [definition for definition in later if _comes_round(definition, block, killer)]
    return found, killer is not None


def only_definition(definitions: Sequence[Definition], order: int, block: Block) -> Definition | None:
    """The definition of a name that has no other, where `block` is passed only behind it; None of any other name."""
    only = definitions[0]
    alone = len(definitions) == 1 and only.order < order and only.kills
    return only if alone and (only.block is block or block.inside(only.block)) else None


def _in_loop(block: Block) -> bool:
    at: Block | None = block
    while at is not None:
        if at.form in LOOPS:
            return True
        at = at.parent
    return False


def _plain(block: Block) -> Block:
    """The block around `with`s and `try`s, whose bodies are run like what stands before them."""
    while block.form in {"with", "try"} and block.parent is not None:
        block = block.parent
    return block


def _always(definition: Block, use: Block) -> bool:
    return use.inside(_plain(definition))


def _has_left(definition: Block, use: Block) -> bool:
    """Whether a run that passed the definition has left the function, or the loop that the use stands in, by then."""
    at = definition
    while at.parent is not None and not use.inside(at):
        if at.ends in {"return", "raise", "exit"} or (at.ends in {"continue", "break"} and _same_loop(at, use)):
            return True
        at = at.parent
    return False


def _same_loop(block: Block, use: Block) -> bool:
    at: Block | None = block
    while at is not None and at.form not in LOOPS:
        at = at.parent
    return at is not None and use.inside(at)


def _all_branches(definition: Block, use: Block, branches: dict[int, set[int]]) -> bool:
    """Whether this was the last branch of a statement each of whose branches gives the name a value, or leaves."""
    at = _plain(definition)
    if at.parent is None or not at.branches or not use.inside(_plain(at.parent)):
        return False
    seen = branches.setdefault(id(at.node), set())
    seen.add(at.branch)
    seen.update(ended.branch for _, ended in at.parent.ended if ended.node is at.node)
    return len(seen) >= at.branches


def _comes_round(definition: Definition, use: Block, killer: Definition | None) -> bool:
    """Whether a later definition in a loop around the use is met again in the next turn."""
    at: Block | None = use
    while at is not None:
        if at.form in LOOPS and definition.block.inside(at):
            return killer is None or not killer.block.inside(at)
        at = at.parent
    return False

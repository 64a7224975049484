"""Values of a YAML file that is read as nodes, which keep their lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ddpdoctor.whole_numbers import whole_number

if TYPE_CHECKING:
    from yaml.nodes import Node

_MERGE = "tag:yaml.org,2002:merge"


def below(node: Node | None, *keys: str) -> Node | None:
    """The value below these keys; None where one is missing."""
    for key in keys:
        node = next((value for name, value in pairs_of(node) if name == key), None)
        if node is None:
            return None
    return node


def pairs_of(node: Node | None) -> list[tuple[str, Node]]:
    """The keys and values of a mapping, with those that `<<` merges into it: its own come first, and each name once."""
    from yaml.nodes import MappingNode, SequenceNode

    found: dict[str, Node] = {}
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop(0)
        if not isinstance(one, MappingNode) or id(one) in seen:  # an alias can stand in its own mapping
            continue
        seen.add(id(one))
        merged: list[Node | None] = []
        for key, value in one.value:
            if key.tag != _MERGE:
                found.setdefault(string_of(key), value)
            else:
                merged += value.value if isinstance(value, SequenceNode) else [value]
        waiting = merged + waiting  # what a mapping merges counts before what stands beside it in a list
    return list(found.items())


def items_of(node: Node | None) -> Sequence[Node]:
    """The items of a list; none of another node."""
    from yaml.nodes import SequenceNode

    return node.value if isinstance(node, SequenceNode) else []


def string_of(node: Node | None) -> str:
    """The text of a scalar; empty of another node."""
    from yaml.nodes import ScalarNode

    return str(node.value) if isinstance(node, ScalarNode) else ""


def line_of(node: Node) -> int:
    """The line where a node begins, from 1."""
    return int(node.start_mark.line) + 1


def whole_of(node: Node | None) -> int | None:
    """The whole number in a scalar; None of another node."""
    return whole_number(string_of(node))

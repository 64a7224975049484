"""The root that a collective is given at one line of the user's source, as an expression over whole numbers."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from ddpdoctor.source.stack_lines.call_expressions import call_of_torch, names_in, stored_in, value_of

# the arguments that name the root, and the place of the first of them
ROOT_ARGUMENTS: Mapping[str, tuple[tuple[str, str], int]] = {
    "broadcast": (("src", "group_src"), 1),
    "broadcast_object_list": (("src", "group_src"), 1),
    "reduce": (("dst", "group_dst"), 1),
    "gather": (("dst", "group_dst"), 2),
    "scatter": (("src", "group_src"), 2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RootArgument:
    """The expression for the root of a call in the default group: of constants, names and the rank."""

    expression: ast.expr
    """As parsed."""
    names: frozenset[str]
    """The variables whose values decide it."""
    ranks: frozenset[str]
    """Those of them that hold the rank, by their name or by what the file assigns to them."""
    varies: bool
    """Whether every turn of a loop around the call may give another root."""

    def value(self, numbers: Mapping[str, int], rank: int) -> int | None:
        """The root on this rank, whose variables have these values; None where these do not tell."""
        return value_of(self.expression, numbers, rank)


def root_argument(file: str, line: int, op: str, owner: int | None = None) -> RootArgument | None:
    """The root that the only call of `op` at this line is given.

    None where there is not one such call, where it may be one of another group than the default one, where it gives no root, and
    where the root may follow from anything but constants, variables and the rank.
    """
    found = call_of_torch(file, line, op, owner) if op in ROOT_ARGUMENTS else None
    given = found.argument(*ROOT_ARGUMENTS[op]) if found is not None else None
    names = names_in(given) if given is not None else None
    if found is None or given is None or names is None:
        return None
    if found.function is not None and found.changes(names, found.call.lineno + 1) and not found.loops:
        return None
    varies = not names.isdisjoint(stored_in(found.loops))
    return RootArgument(expression=given, names=names, ranks=names & found.ranks, varies=varies)

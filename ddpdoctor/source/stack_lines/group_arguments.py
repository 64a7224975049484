"""Whether a call may be one of a process group of its own, by its arguments."""

from __future__ import annotations

import ast

_GROUP_AT = {
    "barrier": 0,
    **dict.fromkeys(("broadcast", "broadcast_object_list", "all_reduce", "all_gather", "all_gather_object"), 2),
    **dict.fromkeys(("all_gather_into_tensor", "all_to_all", "send", "recv"), 2),
    **dict.fromkeys(("reduce", "gather", "gather_object", "scatter", "scatter_object_list"), 3),
    **dict.fromkeys(("reduce_scatter", "reduce_scatter_tensor"), 3),
    "all_to_all_single": 4,
}
"""The place of the group among the arguments of torch's functions."""
_RANKS_WITHIN = frozenset({"group_src", "group_dst"})
"""Arguments that name a rank, and no group."""


def passes_a_group(call: ast.Call) -> bool:
    """Whether a call has an argument for the group, is one of an object that is a group, or hides its arguments in `*`.

    What an object with such a name holds, as `self.mesh.peer`, is no group by that.
    """
    if any(one.arg is None for one in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args):
        return True
    if len(call.args) > _GROUP_AT.get(last_name(call), len(call.args)):
        return True
    keywords = (one.arg for one in call.keywords if one.arg is not None and one.arg not in _RANKS_WITHIN)
    holders = {
        id(part.value) for argument in call.args for part in ast.walk(argument) if isinstance(part, ast.Attribute)
    }
    parts = [part for part in ast.walk(call) if isinstance(part, ast.Name | ast.Attribute) and id(part) not in holders]
    named = (part.id if isinstance(part, ast.Name) else part.attr for part in parts)
    return any(_is_a_group(name.lower()) for name in (*keywords, *named))


def _is_a_group(name: str) -> bool:
    return "group" in name or "mesh" in name or name == "pg" or name.endswith("_pg")


def last_name(call: ast.Call) -> str:
    """The last part of the name of what is called; empty where it has none."""
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )

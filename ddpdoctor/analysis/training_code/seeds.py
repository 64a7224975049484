"""Whether the ranks of a program draw the same random numbers."""

from __future__ import annotations

import re

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import RANK_KINDS
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.whole_numbers import whole_number

_HIDDEN_SEEDS = ("default_rng", "RandomState", "Generator")
_SEEDS = (
    *("seed", "determinis", "reproduc", "setstate", "set_state", "set_rng_state", "randomness"),
    *("fix_rand", "fix_rng", "init_rand"),
)
"""Parts of the names of what may make draws alike, in lower case."""
_WORD = re.compile(r"\w+")
_OF_TORCH = frozenset({"manual_seed", "manual_seed_all", "initial_seed"})
_GENERATORS = frozenset({"random.seed", "numpy.random.seed", "torch.seed", "torch.random.seed"})
"""The functions of this name that seed one generator each."""


def drawn_apart(graph: CallGraph, function: Function, seeded_by: str) -> str:
    """Why ranks draw differently from the generator that `seeded_by` seeds; empty where a seed may make them alike."""
    if not any(part in word.lower() for word in graph.files.words(function) for part in _SEEDS):
        return "no seed is set in this program"
    if seeded_by != "torch.manual_seed" and not _may_be_seeded(graph, function, seeded_by):
        return f"only other generators are seeded, and `{seeded_by}` is not called"
    near = [(owner, seed) for owner, seed in graph.calls_near(function, "seed") if seed.name == seeded_by]
    seeds = [seed for _, seed in near]
    of_rank = [seed for owner, seed in near if _always_of_rank(graph, function, owner, seed)]
    if seeds and len(of_rank) == len(seeds) and not graph.any_program(function, _HIDDEN_SEEDS):
        return f"the seed in line {of_rank[0].place.line} holds the rank"
    return ""


def _may_be_seeded(graph: CallGraph, function: Function, seeded_by: str) -> bool:
    """Whether a function that the programs call may seed this generator of Python's or of numpy's."""
    words = {word for word in graph.files.words(function) if any(part in word.lower() for part in _SEEDS)} - _OF_TORCH
    own = {each.place.function for each in graph.files.functions_near(function)}
    if words - own - {"seed"}:
        return True
    beside = [graph.modules[file] for file in graph.files.near(function) if file in graph.modules]
    if any(not words.isdisjoint(module.words) and not module.functions for module in beside):
        return True  # its calls were not read
    others = _GENERATORS - {seeded_by}
    return any(
        call.name not in others and not call.name.startswith("torch.") for _, call in graph.calls_near(function, "seed")
    )


def _always_of_rank(graph: CallGraph, function: Function, owner: Function, seed: Call) -> bool:
    """Whether a seed holds the rank each time: what is made of parameters may not, where there are several calls."""
    given = seed.argument("seed", 0)
    if given is None or given.only(*RANK_KINDS) is None:
        return False
    near = graph.files.near(function)
    calls = [caller for caller, _ in graph.callers.get(owner.id, ()) if caller.place.file in near]
    if len(calls) < 2 or set(_WORD.findall(given.text)).isdisjoint(owner.parameters):
        return True
    return given.text in owner.parameters and all(origin.kind in RANK_KINDS for origin in given.origins)


def seeded_by_rank(function: Function, draw: str) -> bool:
    """Whether the last seed before a draw (`file:line:column`) in its function is torch's, and holds the rank for certain."""
    file, number, _ = draw.rsplit(":", 2)
    line = whole_number(number)
    if line is None or file != function.place.file:
        return False
    seeds = [
        one for one in function.calls if one.place.line < line and (one.does == "seed" or "seed" in one.name.lower())
    ]
    last = max(seeds, key=lambda one: one.place.line, default=None)
    if last is None or last.name != "torch.manual_seed" or last.guards or last.loops:
        return False
    given = last.argument("seed", 0)
    return given is not None and given.only(*RANK_KINDS) is not None

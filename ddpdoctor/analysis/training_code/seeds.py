"""Whether the ranks of a program draw the same random numbers."""

from __future__ import annotations

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.training_code import RANK_KINDS, Function

_HIDDEN_SEEDS = ("default_rng", "RandomState", "Generator")
_SEEDS = ("seed", "determinis", "reproduc", "setstate", "set_rng_state", "randomness", "default_rng", "randomstate")
"""Parts of the names of what may make draws alike, in lower case."""


_OF_TORCH = frozenset({"manual_seed", "manual_seed_all"})


def _may_seed_others(word: str) -> bool:
    """Whether a name may be one of a function that seeds another generator than torch's."""
    return word not in _OF_TORCH and any(part in word.lower() for part in _SEEDS)


def drawn_apart(graph: CallGraph, function: Function, seeded_by: str) -> str:
    """Why ranks draw differently from the generator that `seeded_by` seeds; empty where a seed may make them alike."""
    if not graph.any_word(function, lambda word: any(part in word.lower() for part in _SEEDS)):
        return "no seed is set in this program"
    if seeded_by != "torch.manual_seed" and not graph.any_word(function, _may_seed_others):
        return f"only torch's generator is seeded, and `{seeded_by}` is not called"
    seeds = [seed for _, seed in graph.calls_near(function, "seed") if seed.name == seeded_by]
    of_rank = [seed for seed in seeds if (value := seed.argument("seed", 0)) is not None and value.only(*RANK_KINDS)]
    if seeds and len(of_rank) == len(seeds) and not graph.any_program(function, _HIDDEN_SEEDS):
        return f"the seed in line {of_rank[0].place.line} holds the rank"
    return ""

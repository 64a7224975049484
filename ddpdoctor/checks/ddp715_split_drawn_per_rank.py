"""DDP715: each rank draws its own split into training and test data."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.all_ranks import line_on_all_ranks
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DATA, is_hook_of_lightning
from ddpdoctor.analysis.training_code.local_values import generator_of
from ddpdoctor.analysis.training_code.seeds import drawn_apart
from ddpdoctor.analysis.training_code.several_ranks import OF_TRANSFORMERS, started_on_each_rank
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Value
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import chain_places, code_finding, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP715",
    name="split-drawn-per-rank",
    summary="each rank draws its own split of the data: what one rank tests on, another trains on",
    severity=Severity.FAIL,
    remedy="draw the split with a generator of one seed: `generator=torch.Generator().manual_seed(0)`",
    leads_to=("DDP512",),
)
_FOLDS = ("KFold", "StratifiedKFold")
"""Splitters of scikit-learn that draw only where they are told to shuffle."""
_SPLITS = {
    "random_split": ("generator",),
    "train_test_split": ("random_state", "shuffle"),
    **dict.fromkeys((*_FOLDS, "ShuffleSplit", "StratifiedShuffleSplit", "GroupShuffleSplit"), ("random_state",)),
}
_REMEDIES = {
    "random_split": "add `generator=torch.Generator().manual_seed(0)`",
    "train_test_split": "add `random_state=0`",
    "permutation": "draw it with `numpy.random.default_rng(0)`",
    "shuffle": "shuffle with a generator of one seed: `random.Random(0).shuffle(files)`",
    "sample": "add `random_state=0`",
    **dict.fromkeys((*_FOLDS, "ShuffleSplit", "StratifiedShuffleSplit", "GroupShuffleSplit"), "add `random_state=0`"),
    "choice": "draw it with `numpy.random.default_rng(0)`",
    "randperm": "add `generator=torch.Generator().manual_seed(0)`",
}
_SEVERAL_RANKS = ("Accelerator", *OF_TRANSFORMERS)
"""What programs of a framework name where they are meant for several ranks."""
_OF_DATASETS = ("seed", "generator", "shuffle", "train_indices_cache_file_name", "test_indices_cache_file_name")
_SPLITS_ALIKE = DOES_THE_DATA - {"deepspeed"}
"""Frameworks that may seed all ranks, or give them their data, by themselves."""
_OF_NUMPY = frozenset({"permutation", *_SPLITS}) - {"random_split"}
_PICKS = frozenset({"choice", "sample"})
"""What draws a part, where others draw an order."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each split without a seed of its own where no seed makes all ranks draw alike."""
    yield from _picked(graph)
    for function, call in graph.calls("split"):
        of_datasets = call.name == ".train_test_split"
        if of_datasets and not _is_of_datasets(graph, function, call):
            continue
        given = _SPLITS.get(short(call), ("generator", "random_state") if _divides(graph, function, call) else None)
        given = _OF_DATASETS if of_datasets else given
        if (
            given is None
            or any((value := call.argument(name)) is not None and not _holds_rank(value) for name in given)
            or (len(call.arguments) > 2 and call.argument("generator") is None and short(call) == "random_split")
        ):
            continue
        own_data = is_hook_of_lightning(graph, function) or (
            of_datasets and graph.any_program(function, _SEVERAL_RANKS)
        )
        if not own_data and not started_on_each_rank(graph, function) and graph.any_program(function, _SPLITS_ALIKE):
            continue
        if not is_hook_of_lightning(graph, function) and not line_on_all_ranks(graph, function, call):
            continue
        if _is_told(graph, function, call) or (short(call) in _FOLDS and not _shuffles(call)):
            continue
        own = any(call.argument(name) is not None for name in given)
        why = (
            "its own seed holds the rank" if own else _unseeded(call) or drawn_apart(graph, function, _seeded_by(call))
        )
        if why:
            yield code_finding(
                RULE,
                f"{short(call)} draws another split on every rank, as {why}: what one rank tests on, another trains on",
                call.place,
                *(cut.place for cut in graph.cuts_of(call.id)),
                remedy="add `seed=0`" if of_datasets else _REMEDIES.get(short(call)),
            )


def _picked(graph: CallGraph) -> Iterator[Finding]:
    """The first subset in a function that is picked by numbers which each rank draws: `np.random.rand(n) < 0.9`."""
    seen: set[str] = set()
    for function, call in graph.calls("subset"):
        indices = call.argument("indices", 1)
        if indices is None or indices.may(Kind.SHARED) or function.id in seen:
            continue
        drawn = next(
            (origin for origin in indices.origins if origin.kind is Kind.LOCAL and origin.note == "draw"), None
        )
        why = drawn_apart(graph, function, generator_of(drawn)) if drawn is not None else ""
        if drawn is None or not why or not line_on_all_ranks(graph, function, call) or _is_told(graph, function, call):
            continue
        seen.add(function.id)
        yield code_finding(
            RULE,
            f"`{indices.text}` picks other samples on every rank, as {why}: what one rank tests on, another trains on",
            call.place,
            *chain_places(drawn, call.place),
            because=drawn,
            remedy="draw the numbers with `numpy.random.default_rng(0)`",
        )


def _is_of_datasets(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether it is the method of a `datasets.Dataset`, and all that it is given is known."""
    known = {argument.name for argument in call.arguments}.isdisjoint({"*", "**", "2"})
    return known and graph.any_program(function, ("load_dataset", "load_from_disk"))


def _holds_rank(value: Value) -> bool:
    """Whether the seed of a call's own generator is another one on each rank."""
    origin = value.only(*RANK_KINDS)
    return origin is not None and origin.note != "uncertain"


def _shuffles(folds: Call) -> bool:
    """Whether a splitter is told to shuffle."""
    given = folds.argument("shuffle", 1)
    return given is not None and given.constant == "True"


def _unseeded(call: Call) -> str:
    """That the generator whose method draws has no seed; empty of others."""
    made = call.receiver.only(Kind.OBJECT) if call.receiver is not None else None
    return "its generator has no seed" if made is not None and made.note == "generator" else ""


def _is_told(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether objects are broadcast after the split, here or in a caller: what rank 0 has drawn may be among them."""
    sites = [(function, call), *graph.callers.get(function.id, ())]
    return any(
        short(other) in {"broadcast_object_list", "scatter_object_list"} and other.order > site.order
        for around, site in sites
        for other in around.calls
    )


def _divides(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether a part of the data is cut out of what the global generator has put into another order."""
    once = not call.loops and function.id not in graph.repeated
    if graph.cuts_of(call.id) or (call.id in graph.divided and once):
        return True
    taken = [other for _, other in graph.taken_by(call.id)]
    if any(other.does in {"subset", "dataset"} and (short(call) in _PICKS or _part_of(call, other)) for other in taken):
        return True
    parts = {_part_of(call, other) for other in taken if _makes_data(graph, other)}
    return len(parts - {""}) > 1


def _part_of(call: Call, taken: Call) -> str:
    """The part that another call takes of what a call has drawn, as written: `order[:900]`; empty where it takes none."""
    texts = (argument.value.text for argument in taken.arguments if call.id in argument.value.made)
    return next((text for text in texts if "[" in text and ":" in text), "")


def _makes_data(graph: CallGraph, call: Call) -> bool:
    """Whether a call makes a data set of a class of the program."""
    cls, _, name = call.target.rpartition(".")
    return name == "__init__" and f"{cls}.__getitem__" in graph.functions


def _seeded_by(call: Call) -> str:
    """The function that seeds the generator which a call draws with."""
    if call.name == "random.shuffle":
        return "random.seed"
    return "numpy.random.seed" if call.name.startswith("numpy.") or short(call) in _OF_NUMPY else "torch.manual_seed"

"""Whether the programs that a framework runs certainly have several ranks, and whether these divide the parameters."""

from __future__ import annotations

import re

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import Kind, Value
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.whole_numbers import whole_number

_SEVERAL = re.compile(r"ddp|fsdp|deepspeed")
_WHOLE = re.compile(r"^['\"](?:auto|ddp\w*)['\"]$")
_STARTS = re.compile(r"^['\"](?:auto|ddp|ddp_find_unused_parameters_(?:true|false)|fsdp|deepspeed\w*)['\"]$")
"""The strategies of Lightning that start the program anew for each rank: others copy the process."""
_OBJECTS = {"DDPStrategy": "'ddp'", "FSDPStrategy": "'fsdp'", "DeepSpeedStrategy": "'deepspeed'"}
"""The names of the strategies of Lightning that are given as objects."""
_UNUSED = re.compile(r"find_unused_parameters[_=](?P<asked>\w+)")
"""Whether a strategy is told to look for parameters without a gradient."""
_NODES = re.compile(r"(?i)node")
OF_TRANSFORMERS = (
    *("LOCAL_RANK", "ddp_backend=", "ddp_timeout=", "ddp_find_unused_parameters=", "init_process_group"),
    *("barrier", "main_process_first", "is_world_process_zero"),
)
"""What programs of transformers name where they are meant for several ranks."""
_DIVIDES = ("deepspeed=", "fsdp=", "fsdp_config=", "tp_size=", "parallelism_config=")
"""What TrainingArguments are given where ranks divide the parameters."""


def counts_nodes(size: Value) -> bool:
    """Whether a world size is a product with a number of nodes."""
    texts = (size.text, *(link.text for origin in size.origins for link in origin.why[:1]))
    texts += tuple(origin.text for origin in size.origins if origin.kind is Kind.UNKNOWN)
    return any("*" in text and _NODES.search(text) for text in texts)


def is_for_several_nodes(init: Call) -> bool:
    """Whether a process group is made for several nodes: its size counts them, or its rank is `node * devices + device`."""
    size, rank = init.argument("world_size", 3), init.argument("rank", 4)
    computed = (one for one in rank.origins if one.kind is Kind.RANK) if rank is not None else ()
    texts = (link.text for one in computed for link in one.why[:1])
    return (size is not None and counts_nodes(size)) or any("*" in text and "+" in text for text in texts)


def is_of_one_node(graph: CallGraph, function: Function) -> bool:
    """Whether the process group is as large as one node has devices, by construction."""
    sizes = (call.argument("world_size", 3) for _, call in graph.calls_near(function, "init"))
    return any(size is not None and size.may(Kind.DEVICE_COUNT) and not counts_nodes(size) for size in sizes)


def runs_several(graph: CallGraph, function: Function, framework: str) -> bool:
    """Whether the programs of a function certainly run it on several ranks."""
    if framework == "lightning":
        trainers = [call for _, call in graph.calls_near(function, "lightning-trainer")]
        return bool(trainers) and all(_is_of_several(call) for call in trainers)
    return framework == "transformers" and graph.any_program(function, OF_TRANSFORMERS)


def started_on_each_rank(graph: CallGraph, function: Function) -> bool:
    """Whether a Trainer of Lightning or transformers runs several ranks, each of which runs the program from its start."""
    if next(graph.calls_near(function, "hf-trainer"), None) is not None:
        return runs_several(graph, function, "transformers")
    strategies = [call.argument("strategy") for _, call in graph.calls_near(function, "lightning-trainer")]
    alone = all(each is None or _STARTS.match(_named(each)) is not None for each in strategies)
    return bool(strategies) and alone and runs_several(graph, function, "lightning")


def started_by_ignite(graph: CallGraph, function: Function) -> bool:
    """Whether a program has Ignite start its ranks: `Parallel` calls the function that it is given in each of them."""
    return graph.any_program(function, ("ignite",)) and graph.any_program(function, ("Parallel",))


def needs_all_gradients(trainer: Call) -> bool:
    """Whether a Trainer of Lightning runs DDP on several ranks for certain, and DDP waits for a gradient of every parameter."""
    strategy = trainer.argument("strategy")
    if strategy is None or not _is_of_several(trainer) or "static_graph" in strategy.text:
        return False
    told = _UNUSED.search(strategy.text)
    if told is not None:
        return told["asked"].lower() == "false" and _named(strategy).startswith("'ddp")
    return trainer.name.startswith("lightning.") and _named(strategy) == "'ddp'"  # others may be older than 2.0


def divides_parameters(graph: CallGraph, function: Function, framework: str) -> bool:
    """Whether ranks may each hold a part of the parameters: a state is then gathered from all of them."""
    if framework != "lightning":
        return graph.any_program(function, _DIVIDES)
    strategies = (call.argument("strategy") for _, call in graph.calls_near(function, "lightning-trainer"))
    return any(each is not None and _WHOLE.match(_named(each)) is None for each in strategies)


def _is_of_several(trainer: Call) -> bool:
    strategy, devices = trainer.argument("strategy"), trainer.argument("devices")
    number = whole_number(devices.constant or "") if devices is not None else None
    if number is not None:
        return number > 1
    return strategy is not None and _SEVERAL.search(_named(strategy)) is not None


def _named(strategy: Value) -> str:
    """A strategy by its name, also where it is an object: `DDPStrategy(find_unused_parameters=True)`; empty where not known."""
    made, _, given = strategy.text.partition("(")
    whole = given.endswith(")") and "start_method" not in given
    return strategy.constant or (_OBJECTS.get(made.rpartition(".")[2], "") if whole else "")

"""DDP728: two processes claim one rank, because each gives its local rank."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.several_ranks import counts_nodes
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Module
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP728",
    name="rank-from-local-rank",
    summary="init_process_group gets the local rank as rank: from the second node on two processes claim one rank",
    severity=Severity.FAIL,
    remedy='give it `rank=int(os.environ["RANK"])`, or leave rank and world_size out: it reads them itself',
    leads_to=("DDP206",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such call, and for each assignment of the local rank to RANK."""
    yield from _assigned(graph)
    for function, call in graph.calls("init"):
        rank = call.argument("rank", 4)
        size = call.argument("world_size", 3)
        if rank is not None and size is not None and (index := rank.only(Kind.SPAWN_INDEX)) and counts_nodes(size):
            yield code_finding(
                RULE,
                f"`rank={rank.text}` is the index that spawn counts on each node, and `{size.text}` counts all nodes: the "
                "first ranks of two nodes both claim rank 0",
                call.place,
                because=index,
                remedy=f"give it `rank=node_rank * gpus_per_node + {rank.text}`",
            )
            continue
        if rank is None or (origin := rank.only(Kind.LOCAL_RANK)) is None or origin.note in {"by name", "remainder"}:
            continue
        if size is not None and not size.only(Kind.WORLD_SIZE):
            continue
        if graph.any_program(function, ("spawn", "start_processes", "Process")):
            continue
        yield code_finding(
            RULE,
            f"`rank={rank.text}` is the local rank: the first ranks of two nodes both claim rank 0",
            call.place,
            because=origin,
            notes=[f"`{rank.text}` comes from {origin.text}"],
        )


def _assigned(graph: CallGraph) -> Iterator[Finding]:
    """The assignments of the local rank to the variable that init_process_group reads the rank from."""
    for module in graph.code.modules:
        for setting in module.settings:
            origin = setting.value.only(Kind.LOCAL_RANK)
            if not setting.always or _one_node(module):
                continue
            if setting.name != "RANK" or origin is None or origin.note in {"by name", "remainder", "argument"}:
                continue
            if {"spawn", "start_processes", "Process"} & {*module.words}:
                continue
            yield code_finding(
                RULE,
                f"RANK is set to the local rank `{setting.value.text}`: the first ranks of two nodes both claim rank 0",
                setting.place,
                because=origin,
                notes=[f"`{setting.value.text}` comes from {origin.text}"],
                remedy="set it to the global rank, such as `SLURM_PROCID`",
            )


def _one_node(module: Module) -> bool:
    """Whether the module sets the world size, too, and to nothing that may count several nodes."""
    sizes = [each.value for each in module.settings if each.name == "WORLD_SIZE"]
    return bool(sizes) and not any(size.may(Kind.WORLD_SIZE) or counts_nodes(size) for size in sizes)

"""DDP719: the data are divided by the local rank, so that every node reads the same."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.several_ranks import counts_nodes, is_for_several_nodes
from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Function
from ddpdoctor.messages.code_findings import code_finding, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP719",
    name="sharded-by-local-rank",
    summary="the sampler gets the local rank: every node reads the same part of the data, and the rest is never read",
    severity=Severity.FAIL,
    remedy="give the sampler the global rank, or leave `rank` out: it asks the process group itself",
    leads_to=("DDP512",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each sampler, and each part of a list, whose rank is the local rank."""
    yield from _cuts(graph)
    made = {(call.place.file, call.place.line) for _, call in graph.calls("sampler", "shard")}
    for function, sampler in graph.calls("sampler", "shard"):
        named = sampler.does == "sampler"
        key = "rank" if named else "shard_id" if sampler.argument("shard_id") is not None else "index"
        rank = sampler.argument(key, 2 if named else None)
        size = sampler.argument("num_replicas", 1) if named else sampler.argument("num_shards")
        several = _has_several_nodes(graph, function)
        by_node = size is not None and size.may(Kind.DEVICE_COUNT) is not None and several
        local = (Kind.LOCAL_RANK, Kind.SPAWN_INDEX) if several else (Kind.LOCAL_RANK,)
        origin = (rank.only(*local) or _of_one_launcher(rank)) if rank is not None else None
        if rank is None or origin is None or origin.note == "by name":
            continue
        if origin.note == "remainder" and not by_node:
            continue
        if any((link.file, link.line) in made for link in origin.why if " is given " in link.text):
            continue  # the call that gives it is named
        of_job = (
            size is None
            or not size.origins
            or counts_nodes(size)
            or (size.may(Kind.WORLD_SIZE) and not size.may(Kind.DEVICE_COUNT))
        )
        if not of_job and not by_node:
            continue
        yield code_finding(
            RULE,
            f"{'the sampler' if named else short(sampler)} divides the data by the local rank `{rank.text}`: ranks of the same "
            "number on two nodes read the same",
            sampler.place,
            because=origin,
            notes=[f"`{rank.text}` comes from {origin.text}"],
            remedy=f"write `rank=dist.get_rank()` in place of `rank={rank.text}`, or leave it out"
            if named
            else f"write `{key}=dist.get_rank()` in place of `{key}={rank.text}`",
        )


def _of_one_launcher(rank: Value) -> Origin | None:
    """The local rank in a variable of such a name, which holds the global rank where another launcher is found."""
    known = rank.only(Kind.LOCAL_RANK, Kind.GLOBAL_RANK) is not None and "local" in rank.text
    return rank.may(Kind.LOCAL_RANK) if known else None


def _has_several_nodes(graph: CallGraph, function: Function) -> bool:
    """Whether the program makes its process group for several nodes."""
    return any(is_for_several_nodes(call) for _, call in graph.calls_near(function, "init"))


def _cuts(graph: CallGraph) -> Iterator[Finding]:
    """The parts of a list that the local rank chooses out of as many as there are ranks in the whole job."""
    for function in graph.functions.values():
        for cut in function.cuts:
            certain = cut.by.kind is Kind.LOCAL_RANK and cut.by.note not in {"by name", "remainder"}
            if certain and cut.of is not None and cut.of.kind is Kind.WORLD_SIZE:
                yield code_finding(
                    RULE,
                    f"`{cut.text}` takes the part of the local rank out of as many as there are ranks in the job: ranks of the "
                    "same number on two nodes read the same",
                    cut.place,
                    because=cut.by,
                    notes=[f"the part comes from {cut.by.text}"],
                    remedy="cut by the global rank, `dist.get_rank()`",
                )

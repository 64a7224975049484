"""DDP719: the data are divided by the local rank, so that every node reads the same."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.training_code import Kind
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
    """One finding for each sampler whose rank is the local rank."""
    made = {(call.place.file, call.place.line) for _, call in graph.calls("sampler", "shard")}
    for _, sampler in graph.calls("sampler", "shard"):
        named = sampler.does == "sampler"
        rank = sampler.argument("rank", 2) if named else sampler.argument("shard_id")
        size = sampler.argument("num_replicas", 1) if named else sampler.argument("num_shards")
        if rank is None or (origin := rank.only(Kind.LOCAL_RANK)) is None or origin.note in {"by name", "remainder"}:
            continue
        if any((link.file, link.line) in made for link in origin.why if " is given " in link.text):
            continue  # the call that gives it is named
        if size is not None and (size.may(Kind.DEVICE_COUNT) or not size.may(Kind.WORLD_SIZE)) and size.origins:
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
            else f"write `shard_id=dist.get_rank()` in place of `shard_id={rank.text}`",
        )

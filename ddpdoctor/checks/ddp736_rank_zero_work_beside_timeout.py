"""DDP736: one rank evaluates or prepares for long, and the others wait for it under the default timeout."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.analysis.training_code.guards import rank_guard
from ddpdoctor.analysis.training_code.later_calls import leads_to_backward
from ddpdoctor.analysis.training_code.reached_collectives import leads_to_collective
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, Function, Guard, Loop
from ddpdoctor.messages.code_findings import code_finding, guarded
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP736",
    name="rank-zero-work-beside-timeout",
    summary="one rank goes over a data set while the others wait for it, and the timeout is the default one",
    severity=Severity.INFO,
    remedy="give init_process_group a `timeout=` that is longer than this work, or divide the work among the ranks",
    leads_to=("DDP408",),
)

_LONG = frozenset({"download", "prepare-data", "process-pool"})
_SOUNDS_LONG = re.compile(
    r"(?i)tokeni[sz]e|preprocess|(?:un)?pack(?![a-z])|un(?:tar|zip)(?![a-z])|decompress|benchmark|evaluate|extract(?:_|$)|convert_|encode_(?:all|data|corpus)|download|featuri[sz]e"
    r"|(?:prepare|build|make|create|write|generate|compute)_(?:\w{1,40}_)?(?:data|cache|corpus|index|vocab|vocabulary|dataset|manifest"
    r"|shards|features|embeddings|lmdb|records|statistics|stats)(?![a-z])"
)
"""Parts of the names of functions that go over a data set."""
_WORD = re.compile(r"\w+")
_LEAVES_WORK = frozenset({"accelerate", "deepspeed", "transformers"})
"""Frameworks that leave it to the program which rank prepares the data."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such loop over data, where all ranks meet behind it."""
    for function in graph.functions.values():
        found = next(_work(graph, function), None)
        if (
            found is None
            or graph.any_program(function, DOES_THE_DEVICE - _LEAVES_WORK)
            or not _default_timeout(graph, function)
        ):
            continue
        work, done, guard = found
        met = [call for call in function.calls if _meets(graph, call, work)]
        meets = next((call for call in met if call.order > work.order), next(iter(met), None))
        if meets is not None:
            what = done.head if isinstance(done, Loop) else done.text
            yield code_finding(
                RULE,
                f"`{what}` runs on one rank, {guarded(guard)}, while the others wait in line {meets.place.line}: after the "
                "default timeout, 10 minutes with NCCL and 30 with gloo, they end the job",
                done.place,
                meets.place,
                because=guard.by_rank,
            )


def _work(graph: CallGraph, function: Function) -> Iterator[tuple[Call | Loop, Call | Loop, Guard]]:
    """The loops over data and the downloads that one rank runs: in this function, or in one that it calls there."""
    for loop in function.loops:
        guard = rank_guard(loop.guards)
        if guard is None or guard.of_rank != "first" or _meet_inside(graph, function, loop):
            continue
        if _is_long(function, loop):
            yield loop, loop, guard
    for call in (each for each in function.calls if each.guards):
        guard = rank_guard(call.guards)
        target = graph.functions.get(call.target)
        long = call.does in _LONG or (not call.does and _SOUNDS_LONG.search(call.name) is not None)
        if guard is not None and guard.of_rank == "first" and long and leads_to_collective(graph, call) is None:
            yield call, call, guard
        if guard is None or guard.of_rank != "first" or target is None or leads_to_collective(graph, call) is not None:
            continue
        for inner in target.calls:
            if inner.does in _LONG and not any(one.by_rank for one in inner.guards):
                yield call, inner, guard
        for loop in target.loops:
            if _is_long(target, loop) and not loop.guards and not _meet_inside(graph, target, loop):
                yield call, loop, guard


def _is_long(function: Function, loop: Loop) -> bool:
    """Whether a loop goes over data, or runs a model as often as an argument says: it draws samples."""
    if loop.over.may(Kind.LOADER, Kind.DATASET):
        return True
    sampled = (
        loop.counts
        and loop.turns is None
        and "(" in loop.over.text
        and bool(set(_WORD.findall(loop.over.text)) & {*function.parameters})
    )
    return sampled and any(
        call.does == "forward" and loop.order < call.order <= loop.last_order for call in function.calls
    )


def _meet_inside(graph: CallGraph, function: Function, loop: Loop) -> bool:
    """Whether the work itself needs the other ranks: that is a hang, whatever the timeout."""
    inside = [call for call in function.calls if loop.order < call.order <= loop.last_order]
    return any(
        leads_to_collective(graph, call) is not None
        or leads_to_backward(graph, call) is not None
        or (call.does == "forward" and call.receiver is not None and call.receiver.may(Kind.WRAPPED))
        for call in inside
    )


def _meets(graph: CallGraph, call: Call, work: Call | Loop) -> bool:
    """Whether all ranks meet in a call that comes after the work, or in the next turn of the loop around it."""
    if any(guard.by_rank for guard in call.guards):
        return False
    again = bool(work.loops) and call.loops[: len(work.loops)] == work.loops
    if call.order <= work.order and not again:
        return False
    return leads_to_collective(graph, call) is not None or leads_to_backward(graph, call) is not None


def _default_timeout(graph: CallGraph, function: Function) -> bool:
    """Whether what makes the process group, Accelerate included, is given no timeout."""
    inits = [call for _, call in graph.calls_near(function, "init")]
    if not inits and graph.any_program(function, ("accelerate",)):
        return not graph.any_program(function, ("InitProcessGroupKwargs", "ddp_timeout="))
    return bool(inits) and all(call.argument("timeout") is None for call in inits)

"""Replicas that start from other weights stay apart: the same gradients are added to other values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.evidence.value_chains import ValueChains
from ddpdoctor.messages import value_chains
from ddpdoctor.messages.replicas import differing, value_finding
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

OF_SHARDS = (
    "build the model from one seed on every rank, or load one checkpoint into it, before the optimizer is built: "
    "`fully_shard` sends no weights to the other replicas"
)
RULE = Rule(
    code="DDP502",
    name="initial-weights-differ",
    summary="replicas do not start from the same weights",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor verify-sync` finds different weights before the first step",
    remedy="wrap with `init_sync=True` (the default), or build the model from one seed and one checkpoint on every rank",
)


def check(replicas: Replicas, chains: ValueChains | None = None) -> Iterator[Finding]:
    """The first parameter that differs before any step."""
    if replicas.stepped:
        raise SkipCheck("the model had already been trained when it was compared")
    differences = differing(replicas, "parameter")
    if differences:
        remedy = OF_SHARDS if replicas.on_a_mesh else None
        found = value_finding(RULE, replicas, differences, "parameters", remedy=remedy)
        models = chains.sharded if chains is not None and replicas.on_a_mesh else ()
        built = value_chains.built_by(models[0], found.ranks) if len(models) == 1 else ()
        yield replace(found, where=(*built, *found.where))

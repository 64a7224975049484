"""The layers of a job's network, each with its verdict, as people and machines read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ddpdoctor.analysis.network.network_layers import Layer
from ddpdoctor.model import Measure
from ddpdoctor.quoting import quoted


def table(layers: Sequence[Layer]) -> str:
    """One line a layer: its name, its verdict, and how many failed or why it was skipped."""
    width = max(len(layer.name) for layer in layers)
    return "\n".join(
        f"{layer.name:<{width}}  {layer.verdict:<7}  {quoted(_describe(layer))}".rstrip() for layer in layers
    )


def measured(layers: Sequence[Layer]) -> list[Measure]:
    """The same for machines."""
    return [{**asdict(layer), "verdict": layer.verdict} for layer in layers]


def _describe(layer: Layer) -> str:
    return {"ok": "", "failed": f"{layer.failed} of {layer.tried}", "skipped": layer.skipped}[layer.verdict]

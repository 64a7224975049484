"""Jobs of four ranks whose replicas diverge in given ways."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergence import Divergence, Divergences
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.value_chains import ValueChains
from tests.checks import job


def found(*each: Divergence, steps: int = 40, source: ValueChains | None = None) -> Evidence:
    """A job of four ranks that made `steps` steps and diverges in `each` of these ways, with what its `source` tells."""
    known = (source,) if source is not None else ()
    return job(Divergences(steps=steps, world_size=4, found=each), *known)

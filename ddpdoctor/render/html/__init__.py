"""The report as one HTML file: it needs no network and no script, and prints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ddpdoctor.derivation import deriver
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.bench import CollectiveBench
from ddpdoctor.model import Report
from ddpdoctor.quoting import quoted_block
from ddpdoctor.render import summary
from ddpdoctor.render.html.bench_curves import bench_section
from ddpdoctor.render.html.check_table import check_section
from ddpdoctor.render.html.collective_timeline import timeline_section
from ddpdoctor.render.html.link_heat_map import link_section
from ddpdoctor.render.html.rank_activities import rank_section
from ddpdoctor.render.html.replica_tables import replica_section
from ddpdoctor.render.html.time_losses import time_section
from ddpdoctor.render.html.training_curves import training_section
from ddpdoctor.render.html.verdict import shown_findings, verdict_of
from ddpdoctor.render.html.what_ran import RunOrigin, run_rows

__all__ = ["RunOrigin", "render"]


def render(
    report: Report,
    evidence: Evidence,
    *,
    title: str = "ddpdoctor",
    facts: Sequence[tuple[str, str]] = (),
    origin: RunOrigin | None = None,
) -> str:
    """One HTML document. `evidence` is what was judged, redacted; `facts` (name, value) become a table of their own.

    `origin` says which command wrote the report and when; None leaves that out.
    """
    derive = deriver(evidence)
    findings = shown_findings(report, evidence)
    page = _environment().get_template("page.html.jinja")
    return page.render(
        title=title,
        verdict=verdict_of(report),
        summary=summary(report),
        findings=findings,
        undecided=report.undecided,
        notes=report.notes,
        crashed=report.crashed,
        run=run_rows(evidence),
        facts=() if evidence.one(CollectiveBench) is not None else facts,  # its table has them
        timeline=timeline_section(derive),
        ranks=rank_section(evidence, derive, {place for finding in findings for place in finding.excerpts}),
        times=time_section(report, derive),
        links=link_section(evidence),
        bench=bench_section(evidence),
        replicas=replica_section(evidence, derive),
        training=training_section(evidence),
        checks=check_section(report, evidence),
        origin=origin,
    )


@cache
def _environment() -> Environment:
    from pathlib import Path

    return Environment(
        loader=FileSystemLoader(Path(__file__).with_name("page")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        lstrip_blocks=True,
        finalize=_printable,
    )


def _printable(value: Any) -> Any:  # noqa: ANN401 - whatever a template shows
    """Text of a job without control characters, and without those that reorder the text around them."""
    return quoted_block(value) if isinstance(value, str) and not isinstance(value, Markup) else value

"""DDP714: ranks cut a list of files by their rank whose order is not the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import Kind, Origin
from ddpdoctor.evidence.training_code import Place
from ddpdoctor.messages.code_findings import chain_places, code_finding
from ddpdoctor.model import Edit, Finding, Fix, Rule, Severity

RULE = Rule(
    code="DDP714",
    name="shards-from-unordered-files",
    summary="each rank takes its part of a list of files in no fixed order: samples overlap or are lost",
    severity=Severity.WARN,
    remedy="sort the list before it is cut: `files = sorted(glob.glob(pattern))`",
    leads_to=("DDP512",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such cut."""
    for function in graph.functions.values():
        for cut in function.cuts:
            origin = cut.whole.may(Kind.UNORDERED)
            if origin is None or cut.whole.may(Kind.SHARED):
                continue
            yield code_finding(
                RULE,
                f"`{cut.text}` cuts a list by the rank whose order {origin.text} does not fix: on other hosts it differs, so "
                "that samples overlap or are lost",
                cut.place,
                *chain_places(origin, cut.place),
                because=origin,
                notes=[f"`{cut.by.text}` is in the bounds"] if cut.by.text else (),
                remedy=f"sort before the cut: `sorted({origin.text})`",
                fix=_fix(origin, cut.place),
            )


def _fix(origin: Origin, cut: Place) -> Fix | None:
    """`sorted(...)` around the listing; entries of `os.scandir` have no order."""
    if "scandir" in origin.text:
        return None
    file, line = (origin.why[-1].file, origin.why[-1].line) if origin.why else (cut.file, cut.line)
    return Fix(edit=Edit.SORT, file=file, line=line, old=origin.text)

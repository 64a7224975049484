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
    """One finding for each such cut, and for each list of a data set of which a sampler gives each rank its part."""
    yield from _drawn_by_number(graph)
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


def _drawn_by_number(graph: CallGraph) -> Iterator[Finding]:
    """Data sets over a list in no fixed order: the numbers that a sampler gives stand for other files on other hosts."""
    seen: set[str] = set()
    for _, sampler in graph.calls("sampler"):
        dataset = sampler.argument("dataset", 0)
        classes = (
            [one.note for one in dataset.origins if one.kind is Kind.DATASET and one.note]
            if dataset is not None
            else []
        )
        for cls in classes:
            size = graph.functions.get(f"{cls}.__len__")
            listed = size.counted if size is not None and cls not in seen else None
            origin = listed.may(Kind.UNORDERED) if listed is not None and not listed.may(Kind.SHARED) else None
            if size is None or origin is None:
                continue
            seen.add(cls)
            places = chain_places(origin, size.place)[::-1] or [size.place]
            yield code_finding(
                RULE,
                f"`{origin.text}` lists the files of a data set in no fixed order: on hosts where it differs, the numbers that "
                "the sampler gives stand for other samples, and some are read twice",
                *places,
                sampler.place,
                because=origin,
                severity=Severity.INFO,
                remedy=f"sort the list: `sorted({origin.text})`",
                fix=_fix(origin, size.place),
            )


def _fix(origin: Origin, cut: Place) -> Fix | None:
    """`sorted(...)` around the listing; entries of `os.scandir` have no order."""
    if "scandir" in origin.text:
        return None
    file, line = (origin.why[-1].file, origin.why[-1].line) if origin.why else (cut.file, cut.line)
    return Fix(edit=Edit.SORT, file=file, line=line, old=origin.text)

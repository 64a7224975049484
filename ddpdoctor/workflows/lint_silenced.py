"""Findings that a comment in the file silences, and what is wrong with such comments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ddpdoctor.catalogue import nearest_name, rule_called
from ddpdoctor.evidence.remarks import Remark
from ddpdoctor.grouping import grouped
from ddpdoctor.model import Finding


def without_silenced(
    findings: Sequence[Finding], remarks: Sequence[Remark], looked: Collection[str], *, complete: bool
) -> tuple[list[Finding], list[str]]:
    """The findings that no comment silences, and a note for each comment, or code in one, that silences nothing.

    `looked` are the codes of the rules that ran, `complete` says that no rule was left out.
    """
    by_file = grouped((remark.file, remark) for remark in remarks)
    used: set[tuple[Remark, str]] = set()
    kept = []
    for finding in findings:
        near = by_file.get(finding.where[0].file, ()) if finding.where else ()
        silencing = [(remark, code) for remark in near for code in _silencing(remark, finding)]
        used.update(silencing)
        if not silencing:
            kept.append(finding)
    return kept, [note for remark in remarks for note in _notes(remark, used, looked, complete=complete)]


def _silencing(remark: Remark, finding: Finding) -> Iterator[str]:
    """The codes of a comment that silence a finding of its file; the empty one where it names none."""
    first, last = remark.about
    if first <= finding.where[0].line <= last:
        named = {"", finding.code, finding.rule.name.upper()}
        yield from (code for code in remark.codes or ("",) if code.upper() in named)


def _notes(
    remark: Remark, used: Collection[tuple[Remark, str]], looked: Collection[str], *, complete: bool
) -> Iterator[str]:
    comment = f"{remark.file}:{remark.line}: `ddpdoctor: ignore[{', '.join(remark.codes)}]`".replace("[]", "")
    unused = []
    for code in remark.codes:
        rule = rule_called(code)
        if rule is None:
            near = nearest_name(code)
            yield f"{comment}: no finding has the code or name {code}{f'; did you mean {near}?' if near else ''}"
        elif (remark, code) not in used and (complete or rule.code in looked):
            unused.append(code)
    if not remark.codes and (remark, "") not in used and complete:
        yield f"{comment} silences nothing"
    elif unused:
        only = f" of {', '.join(unused)}" if len(unused) < len(remark.codes) else ""
        yield f"{comment} silences nothing{only}"

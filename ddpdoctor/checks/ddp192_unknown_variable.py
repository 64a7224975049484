"""A variable is set whose name no library on this host knows."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.variables import KnownNames
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP192",
    name="unknown-variable",
    summary="a variable has the prefix of torch, gloo or NCCL, but none of them knows its name",
    severity=Severity.WARN,
    remedy="correct the name: a misspelled variable is silently ignored",
    background=True,
)


def check(names: PerRank[KnownNames]) -> Iterator[Finding]:
    """One finding for each unknown name: a warning where a real name is near, else information."""
    setters: dict[tuple[str, str | None], list[int]] = {}
    read: set[str] = set()
    for entry in names:
        read.update(entry.value.read)
        for lookup in entry.value.judged:
            if not lookup.known:
                setters.setdefault((lookup.name, lookup.nearest), []).append(entry.rank)
    for (name, nearest), ranks in setters.items():
        who = f" ({group_ranks(ranks)})" if names.launched else ""
        if nearest is not None:
            yield RULE.finding(
                f"{name} is set{who}, but no installed library reads it; did you mean {nearest}?",
                ranks=ranks if names.launched else (),
                remedy=f"if {nearest} was meant, rename it; as it is, it is silently ignored",
                variable=name,
                nearest=nearest,
            )
        else:
            yield RULE.finding(
                f"{name} is set{who}, but no installed library reads it ({len(read)} searched)",
                ranks=ranks if names.launched else (),
                severity=Severity.INFO,
                remedy="unset it, or look up its replacement in the documentation of your versions",
                variable=name,
            )

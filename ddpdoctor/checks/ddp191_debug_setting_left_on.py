"""A setting meant for debugging is on: it makes the job slower, or hides what it was meant to show."""

from collections.abc import Iterator

from ddpdoctor.analysis.launch.debug_settings import SETTINGS
from ddpdoctor.analysis.launch.group_by_value import who_sets
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP191",
    name="debug-setting-left-on",
    summary="a setting for debugging is on",
    severity=Severity.WARN,
    remedy="unset it when you have finished debugging",
    background=True,
)


def check(environment: PerRank[Environment]) -> Iterator[Finding]:
    """One finding for each such setting, with its effect and the ranks that have it."""
    for name, setters in who_sets(environment, SETTINGS.keys()):
        values = [value for value in setters.values if SETTINGS[name].active(value)]
        if values:
            yield RULE.finding(
                f"{name}={values[0]} is set{setters.suffix}: {SETTINGS[name].effect}",
                ranks=setters.ranks,
                variable=name,
                value=values[0],
            )

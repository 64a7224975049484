"""A file sets NCCL variables that the environment does not show."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.variables import NcclConfigFiles
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP193",
    name="hidden-nccl-settings",
    summary="a file such as /etc/nccl.conf sets NCCL variables that the environment does not show",
    severity=Severity.INFO,
    remedy="check this file when NCCL does not follow the environment, and keep it identical on all hosts",
    background=True,
)


def check(files: PerRank[NcclConfigFiles], environment: PerRank[Environment]) -> Iterator[Finding]:
    """One finding for each file with settings; a warning where the environment says otherwise, which then holds.

    Where hosts have other settings in the file of one name, one warning for all of them.
    """
    variables = {each.host: each.value.variables for each in environment.hosts()}
    if not variables:
        raise SkipCheck("no environment variables in the evidence")
    seen: dict[str, dict[tuple[tuple[str, str], ...], list[str]]] = {}
    for each in files.hosts():
        for path, lines in each.value.files.items():
            seen.setdefault(path, {}).setdefault(tuple(sorted(lines.items())), []).append(each.host)
    for path, by_settings in seen.items():
        if len(by_settings) > 1:
            details = tuple(f"{', '.join(hosts)}: {_describe(settings)}" for settings, hosts in by_settings.items())
            yield RULE.finding(
                f"{path} differs between hosts",
                severity=Severity.WARN,
                details=details,
                remedy="make the file identical on all hosts",
            )
            continue
        for settings, hosts in by_settings.items():
            if not settings:
                continue
            chosen = variables.get(hosts[0], {})
            beaten = [f"{name}={chosen[name]}" for name, value in settings if chosen.get(name, value) != value]
            rest = f"; the environment sets {', '.join(beaten)}, which takes precedence" if beaten else ""
            yield RULE.finding(
                f"{path} on {', '.join(hosts)} sets {_describe(settings)}{rest}",
                hosts=hosts,
                severity=Severity.WARN if beaten else Severity.INFO,
                settings=dict(settings),
            )


def _describe(settings: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings) or "nothing"

"""DDP722: a program overwrites the port or address that its launcher chose."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.training_code import EnvironmentSetting, Module, Place
from ddpdoctor.messages.code_findings import code_finding, in_tests
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP722",
    name="address-or-port-fixed",
    summary="a program sets the rendezvous port or address itself: two jobs on one node meet",
    severity=Severity.WARN,
    remedy='keep what the launcher gives: `os.environ.setdefault("MASTER_PORT", "29500")`',
    leads_to=("DDP202", "DDP231"),
)
_URL = re.compile(r"f?[\"']tcp://([^:/\"']+):(\d{1,18})[\"']")
_LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
_SPAWNS = ("spawn", "start_processes", "Process")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each function that does so, and for each constant URL with a port."""
    for module in graph.modules.values():
        by_function: dict[str, EnvironmentSetting] = {}
        for setting in sorted(module.settings, key=lambda each: each.name, reverse=True):  # the port first
            if setting.always and _fixed(graph, module, setting) and not _of_one_process(graph, setting):
                by_function.setdefault(setting.place.function, setting)
        for setting in by_function.values():
            yield _of_setting(setting)
    for _, call in graph.calls("init"):
        given = call.argument("init_method", 1)
        matches = [_URL.fullmatch(origin.text) for origin in given.origins] if given is not None else []
        match = matches[0] if matches and all(matches) else None
        if match is not None and match[2] != "0":
            yield code_finding(
                RULE,
                f"init_method is always tcp://{match[1]}:{match[2]}: a second job on the node uses the same port",
                call.place,
                remedy='use `init_method="env://"`, and let torchrun choose the port',
                severity=_severity(call.place),
                measured={"port": int(match[2])},
            )


def _fixed(graph: CallGraph, module: Module, setting: EnvironmentSetting) -> bool:
    if setting.value.constant is None or not module.functions:
        return False
    if setting.name == "MASTER_PORT":
        return setting.value.constant.strip("'\"") not in {"0", ""}
    if setting.name != "MASTER_ADDR":
        return False
    return graph.any_program(module.functions[0], _LAUNCHED) and not graph.any_program(module.functions[0], _SPAWNS)


def _of_one_process(graph: CallGraph, setting: EnvironmentSetting) -> bool:
    """Whether the function that sets it makes a process group of one rank: no launcher has given anything."""
    sizes = [
        call.argument("world_size", 2)
        for function, call in graph.calls("init")
        if function.place.file == setting.place.file and call.place.function == setting.place.function
    ]
    return any(size is not None and size.constant == "1" for size in sizes)


def _severity(place: Place) -> Severity:
    """A unit test with a port of its own is no job that shares nodes."""
    return Severity.INFO if in_tests(place) else Severity.WARN


def _of_setting(setting: EnvironmentSetting) -> Finding:
    value = (setting.value.constant or "").strip("'\"")
    harm = (
        "a second job on the node uses the same port"
        if setting.name == "MASTER_PORT"
        else "ranks on other nodes look for rank 0 there"
    )
    return code_finding(
        RULE,
        f"{setting.name} is always {value}, whatever the launcher gave: {harm}",
        setting.place,
        remedy=f'keep what the launcher gives: `os.environ.setdefault("{setting.name}", "{value}")`',
        severity=_severity(setting.place),
        measured={"variable": setting.name},
    )

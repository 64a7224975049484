"""DDP716: all ranks download into one folder at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.all_ranks import on_all_ranks, starts_the_job
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import is_hook_of_lightning
from ddpdoctor.analysis.training_code.several_ranks import started_on_each_rank
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind
from ddpdoctor.evidence.training_code import Call, Function, Guard, Place
from ddpdoctor.messages.code_findings import code_finding, fix, short
from ddpdoctor.model import Edit, Finding, Rule, Severity

RULE = Rule(
    code="DDP716",
    name="download-on-every-rank",
    summary="every rank downloads, unpacks or preprocesses into the same folder at the same time",
    severity=Severity.WARN,
    remedy="download on local rank 0 only, then `dist.barrier()`, then open the data on every rank",
    leads_to=("DDP401",),
)
_WAITS = re.compile(r"first|lock|rank|main|zero|barrier|master", re.IGNORECASE)
_WRITES = frozenset({"write", "save"})
_THERE = re.compile(r"\b(?:exists|is_?file|is_?dir)\(")
_NOT = re.compile(r"\bnot\b")
_BEFORE = ("prepare_data", "download", "setup_data")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each download that no test of the rank guards."""
    for function, call in graph.calls("dataset", "download", "write", "save"):
        if call.does in _WRITES and not _fills_a_cache(graph, function, call):
            continue
        if call.does == "dataset":
            asked = call.argument("download")
            if asked is None or asked.constant != "True":
                continue
        if (source := call.argument("source")) is not None and source.constant == "'local'":
            continue
        if call.name.endswith(("snapshot_download", "hf_hub_download")) and not _has_a_folder(call):
            continue  # into a cache that it locks
        if any(guard.by_rank for guard in call.guards) or not _trains(graph, function, call):
            continue
        if _before_the_ranks(graph, function, call) or _filled_before(graph, function, call):
            continue
        if any(one.value.may(*RANK_KINDS) for one in call.arguments):  # a folder for each rank
            continue
        folder = call.argument("root", 0)
        first = f"`download=True` of {short(call)}" if call.does == "dataset" else f"{short(call)}"
        where = f" into {folder.text}" if folder is not None and folder.text and call.does == "dataset" else ""
        yield code_finding(
            RULE,
            f"{first} runs on every rank at once{where}: ranks read files that another rank is still writing",
            call.place,
            *_called_at(graph, function),
            remedy="write `download=dist.get_rank() == 0` and `dist.barrier()` behind it, before the other ranks open the files"
            if call.does == "dataset"
            else None,
            fix=fix(Edit.RANK_ZERO_FIRST, call.place) if call.does not in _WRITES else None,
        )


def _called_at(graph: CallGraph, function: Function) -> list[Place]:
    """Where the training script calls the function that downloads; nothing of `main()` in the module itself."""
    sites = [site.place for caller, site in graph.callers.get(function.id, ()) if caller.place.function != "<module>"]
    return sites[:1]


def _has_a_folder(call: Call) -> bool:
    """Whether a download of the Hugging Face Hub certainly gets a folder of its own."""
    folder = call.argument("local_dir")
    return folder is not None and not any(one.kind is Kind.CONSTANT and one.text == "None" for one in folder.origins)


def _fills_a_cache(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether a file is written where it is missing, under its last name: each rank finds that it is missing."""
    if any(other.order < call.order for other in graph.calls_of(function, "download")):
        return False  # what is written has been downloaded, and that is reported
    moved = any(other.order > call.order for other in graph.calls_of(function, "move"))
    ways = [way for _, way in graph.callers.get(function.id, ())]
    around = [call.guards] if not ways else [(*call.guards, *way.guards) for way in ways]
    return not moved and all(any(_is_missing(guard) for guard in guards) for guards in around)


def _is_missing(guard: Guard) -> bool:
    """Whether a test lets those pass that find no file."""
    if guard.form == "except":
        return "FileNotFoundError" in guard.test
    asked = _THERE.search(guard.test)
    if asked is None:
        return False
    denied = _NOT.search(guard.test[: asked.start()]) is not None
    return denied if guard.form == "if" and not guard.branch else not denied and guard.form in {"else", "after", "if"}


def _before_the_ranks(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether only the process makes a call that then spawns the ranks."""
    sites = {function.id: (function, call)}
    waiting = [function]
    while waiting:
        for caller, site in graph.callers.get(waiting.pop().id, ()):
            if caller.id not in sites:
                sites[caller.id] = (caller, site)
                waiting.append(caller)
    for around, site in sites.values():
        module = around.place.function == "<module>"
        if around.entry and (not module or not any(guard.form == "main" for guard in site.guards)):
            return False  # a spawned function, or module code that each process runs as it starts
    return any(_spawns(graph, around) for around, _ in sites.values())


def _filled_before(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether the parent process has made the same call when it starts the ranks: each then finds all files."""
    return any(
        other.name == call.name and other.id != call.id and _before_the_ranks(graph, owner, other)
        for owner, other in graph.calls_near(function, call.does)
    )


def _spawns(graph: CallGraph, function: Function) -> bool:
    """Whether a function starts the ranks, by itself or in one that it calls."""
    called = [graph.functions[call.target] for call in function.calls if call.target in graph.functions]
    return any(call.does in {"spawn", "process"} for each in (function, *called) for call in each.calls)


def _trains(graph: CallGraph, function: Function, call: Call, depth: int = 3) -> bool:
    """Whether a file that makes a process group or a wrapper leads here, with nothing that keeps other ranks behind."""
    if _waits(function, call) or function.guards or _is_hook_before_the_ranks(function):
        return False
    callers = graph.callers.get(function.id, ())
    if callers and all(_waits(caller, site) for caller, site in callers):
        return False
    if is_hook_of_lightning(graph, function):
        return True
    file = function.id.partition("::")[0]
    if on_all_ranks(graph, function) is True and any(
        starts_the_job(graph, each, 1) or any(other.does.startswith("wrap-") for other in each.calls)
        for each in graph.modules[file].functions
    ):
        return True
    if on_all_ranks(graph, function) is True and started_on_each_rank(graph, function):
        return True
    return depth > 0 and any(
        not any(guard.by_rank for guard in site.guards) and _trains(graph, caller, site, depth - 1)
        for caller, site in callers
    )


def _is_hook_before_the_ranks(function: Function) -> bool:
    """Whether this is a method that frameworks call in one process, such as `prepare_data` of a data module."""
    return function.place.function in _BEFORE and "." in function.id.rpartition("::")[2]


def _waits(function: Function, call: Call) -> bool:
    """Whether the other ranks are kept behind: by a `with`, or by a barrier under a test of the rank before it."""
    if any(_WAITS.search(context.text) for context in call.contexts):
        return True
    first = [
        other
        for other in function.calls
        if other.name == call.name and other.order < call.order and any(guard.by_rank for guard in other.guards)
    ]
    if first and any(
        other.does == "collective" and first[0].order < other.order < call.order for other in function.calls
    ):
        return True  # one rank has filled the folder by then
    return any(
        other.does == "collective" and other.order < call.order and any(guard.by_rank for guard in other.guards)
        for other in function.calls
    ) or any(_WAITS.search(other.name) and other.target and other.order < call.order for other in function.calls)

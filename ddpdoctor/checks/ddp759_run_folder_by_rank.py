"""DDP759: every rank names the folder of the run by its own clock, or by the next free number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ddpdoctor.analysis.training_code.all_ranks import line_on_all_ranks, starts_the_job
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.analysis.training_code.guards import unconditional
from ddpdoctor.analysis.training_code.local_values import generator_of
from ddpdoctor.analysis.training_code.seeds import drawn_apart
from ddpdoctor.analysis.training_code.several_ranks import started_on_each_rank
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function, Place
from ddpdoctor.messages.code_findings import chain_places, code_finding, in_tests
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP759",
    name="run-folder-by-rank",
    summary="each rank names the run's folder by its own clock: ranks that start in different seconds write to different folders",
    severity=Severity.WARN,
    remedy="make the name on rank 0 and broadcast it: `dist.broadcast_object_list(names)`",
)


_FUNCTION = re.compile(r"(?:listdir|scandir|glob|iglob)\((?P<argument>[^()]*(?:\([^()]*\))?)")
_METHOD = re.compile(r"\.(?:iterdir|r?glob)\(")
_TEXT = re.compile(r"""[\"'](?P<text>[^\"']*)""")
_NAMES_THE_FOLDER = DOES_THE_DEVICE - {"ignite", "accelerate", "fabric", "deepspeed", "submitit"}
"""Frameworks that name the folder of a run, or agree on its name, by themselves."""
_EXPORTS = frozenset({"tensorflow", "jax"})
"""What programs of torch import for export and logs, too: it does not keep a rank from looking for a free name."""
_OF_TRANSFORMERS = ("TrainingArguments", "Config")
"""What a Trainer of transformers gets the folder of its run by, which it takes as each rank names it."""
_FOLDERS = ("output_dir", "log_dir", "logdir")
_ASKED = re.compile(r"(?:exists|is_?dir)\(")
_CLOCKS = ("time", "today", "now", "getpid", "uuid", "token")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each folder that all ranks make by the time, or by a number that is free when they look."""
    yield from _named_later(graph)
    for function, call in graph.calls("make-folder"):
        path = _path(call)
        if (
            path is None
            or path.may(*RANK_KINDS)
            or path.may(Kind.SHARED)
            or in_tests(call.place)
            or not line_on_all_ranks(graph, function, call)
        ):
            continue
        origin = path.may(Kind.LOCAL)
        counted = next((one for one in path.origins if one.note == "number"), None)
        free = counted is not None and _is_free(graph, function, counted)
        known = _NAMES_THE_FOLDER - _EXPORTS if free else _NAMES_THE_FOLDER
        known = known - {"transformers", "accelerate"} if call.name.endswith(_OF_TRANSFORMERS) else known
        if graph.any_program(function, known) and not started_on_each_rank(graph, function):
            continue
        if counted is not None and not call.loops:
            if (free or _is_there(counted, path)) and not _kept_together(function, call, counted):
                yield _numbered(call, path, counted)
            continue
        drawn = origin is not None and origin.note == "draw" and drawn_apart(graph, function, generator_of(origin))
        if origin is None or origin.made or not (drawn or any(word in origin.text for word in _CLOCKS)):
            continue
        who = "ranks" if drawn else "ranks that start in different seconds"
        yield _by_clock(path, call.place, origin, who)


def _named_later(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each folder that parsed TrainingArguments get by the clock: `training_args.output_dir = run_name()`."""
    for function in graph.functions.values():
        for change in function.changes:
            origin = change.value.may(Kind.LOCAL) if change.key.endswith(".output_dir") else None
            if origin is None or origin.made or not any(word in origin.text for word in _CLOCKS):
                continue
            if change.value.may(*RANK_KINDS, Kind.SHARED) or in_tests(change.place):
                continue
            own = any(one.note == "settings-of-run" for one in change.owner.origins)
            if own and line_on_all_ranks(graph, function, change) and started_on_each_rank(graph, function):
                yield _by_clock(change.value, change.place, origin, "ranks that start in different seconds")


def _by_clock(path: Value, place: Place, origin: Origin, who: str) -> Finding:
    return code_finding(
        RULE,
        f"each rank makes `{path.text}` by its own {origin.text}: {who} write to different folders",
        place,
        *chain_places(origin, place),
        because=origin,
    )


def _path(call: Call) -> Value | None:
    """The folder that a call makes."""
    if call.name == ".mkdir":
        return call.receiver
    given = call.argument("name", 0) or call.argument("path")
    return given or next((one for name in _FOLDERS if (one := call.argument(name)) is not None), None)


def _is_free(graph: CallGraph, function: Function, counted: Origin) -> bool:
    """Whether it has the first name that was free, where ranks are: in a file that starts them, or for functions that do."""
    if _ASKED.search(counted.text) is None:
        return False
    beside = graph.modules[function.id.partition("::")[0]].functions
    callers = [caller for caller, _ in graph.callers.get(function.id, ())]
    own = bool(callers) and all(starts_the_job(graph, caller, 1) for caller in callers)
    return own or any(starts_the_job(graph, each, 1) for each in beside)


def _is_there(counted: Origin, path: Value) -> bool:
    """Whether the folder is made where the others were counted."""
    texts = (path.text, *(link.text for link in counted.why))
    if _listed(counted.text):
        return _names(_listed(counted.text) or "", texts)
    lists = next((text for text in texts if _listed(text)), "")
    return bool(lists) and _names(_listed(lists) or "", [text for text in texts if text != lists])


def _names(listed: str, texts: Iterable[str]) -> bool:
    """Whether one of the texts that lead to a path has the folder in it whose content is listed."""
    where = listed.strip()
    if (text := _TEXT.search(where)) is not None:
        where = text["text"].partition("*")[0]
        where = where.partition("}")[0].lstrip("{") if where.startswith("{") else where.rstrip("/")
    made = " ".join(texts)
    return bool(where) and re.search(rf"(?<![\w./]){re.escape(where)}(?!\w)", made) is not None


def _listed(text: str) -> str | None:
    """What a call in `text` lists: a function's argument, or what stands before a method; None without such a call."""
    methods = [*_METHOD.finditer(text)]
    if methods and not _FUNCTION.match(text):
        return text[: methods[-1].start()]
    function = _FUNCTION.search(text)
    return function["argument"] if function is not None else None


def _kept_together(function: Function, call: Call, counted: Origin) -> bool:
    """Whether all ranks have counted before one makes the folder, as they meet in between."""
    lines = [link.line for link in counted.why if link.file == call.place.file]
    since = max(lines, default=call.place.line)
    return any(
        other.does == "collective"
        and since <= other.place.line < call.place.line
        and unconditional(other.guards, function)
        for other in function.calls
    )


def _numbered(call: Call, path: Value, origin: Origin) -> Finding:
    return code_finding(
        RULE,
        f"each rank makes `{path.text}` by the number of folders that it finds: a rank that looks after another has made its "
        "folder takes the next number",
        call.place,
        *chain_places(origin, call.place),
        because=origin,
    )

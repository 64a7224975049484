"""DDP739: a program that torchrun starts once per rank spawns its ranks itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScripts, place
from ddpdoctor.analysis.training_code.all_ranks import on_all_ranks
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, Function, Guard
from ddpdoctor.messages.code_findings import where
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP739",
    name="spawn-inside-torchrun",
    summary="torchrun starts a program once per rank, and each of them spawns all ranks again",
    severity=Severity.FAIL,
    remedy="start the program with plain python, or drop the spawn and read RANK, LOCAL_RANK and WORLD_SIZE",
    leads_to=("DDP207",),
)


def check(graph: CallGraph, launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each start of several ranks of a program that spawns whatever the environment says."""
    for path, start, ranks in launch.starts():
        if ranks == 1 or start.launcher == "accelerate launch":
            continue
        for program in _programs(start.command.words):
            for call in _spawns(graph, program):
                count = f"{ranks} processes" if ranks else "several processes"
                yield RULE.finding(
                    f"torchrun starts {count} of {program}, and each of them spawns ranks of its own: the ranks of all "
                    "of them claim the same numbers",
                    where=[where(call.place), place(path, start.line)],
                )


def _programs(words: Iterable[str]) -> Iterator[str]:
    """The Python files among the words of a command, and those of modules: `-m package.module`."""
    before = ""
    for word in words:
        if word.endswith(".py"):
            yield word
        elif before in {"-m", "--module"} and not word.startswith("torch."):
            yield from (f"{word.replace('.', '/')}{end}" for end in (".py", "/__main__.py"))
        before = word


def _spawns(graph: CallGraph, program: str) -> Iterator[Call]:
    """The spawn that a program makes for certain, in its own file or in a module that it imports."""
    started = [each for each in graph.code.programs if f"/{each.root}".endswith(f"/{program.removeprefix('./')}")]
    files = {file for each in started for file in each.files}
    for function, call in graph.calls("spawn", "process"):
        if call.does == "process" and not _starts_a_rank(graph, call):
            continue
        own = function.id.partition("::")[0] in files
        plain = all(_holds(guard, call) for guard in call.guards) and not _may_have_left(graph, function, call)
        if own and plain and on_all_ranks(graph, function) is True:
            yield call
            return


def _holds(guard: Guard, spawn: Call) -> bool:
    """Whether a test lets in every process of the launcher: on several devices, as many as ranks are spawned, it does."""
    ranks = spawn.argument("nprocs", 2)
    several = ranks is not None and guard.test == f"{ranks.text} > 1" and ranks.only(Kind.DEVICE_COUNT) is not None
    return guard.form == "main" or (several and guard.form == "if" and guard.branch == 0)


def _starts_a_rank(graph: CallGraph, process: Call) -> bool:
    """Whether the function that a process runs joins the job as the rank that it is given: the index of the process."""
    target = process.argument("target", 1)
    work = target.only(Kind.FUNCTION) if target is not None else None
    first = graph.functions.get(work.made) if work is not None else None
    if first is None:
        return False
    called = [graph.functions[call.target] for call in first.calls if call.target in graph.functions]
    inits = [call for each in (first, *called) for call in each.calls if call.does == "init"]
    return bool(inits) and all(_joins_as_its_index(call) for call in inits)


def _joins_as_its_index(init: Call) -> bool:
    """Whether it is the job's group, and none of its own with an address for each."""
    rank, address = init.argument("rank"), init.argument("init_method", 1)
    return (
        rank is not None
        and rank.only(Kind.SPAWN_INDEX) is not None
        and (address is None or address.constant is not None)
    )


def _may_have_left(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether a test may have led out before, such as one of the environment: `if "RANK" in os.environ: ...; return`."""
    sites = [(function, call), *graph.callers.get(function.id, ())]
    return any(
        leave.form in {"return", "exit"} and not leave.fails and leave.order < site.order
        for around, site in sites
        for leave in around.exits
    )

"""DDP725: processes are spawned by code that each of them runs again when it starts."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP725",
    name="spawn-without-main-guard",
    summary='mp.spawn runs without `if __name__ == "__main__":`: each process that it starts imports the file and fails',
    severity=Severity.FAIL,
    remedy='put the call under `if __name__ == "__main__":`',
    leads_to=("DDP417",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each spawn that importing the file runs, and for each one of a function of a notebook."""
    for function, call in graph.calls("spawn"):
        how = call.argument("start_method")
        if how is not None and how.constant == "'fork'":
            continue
        if ".ipynb" in call.place.file:
            target = call.argument("fn", 0)
            run = target.may(Kind.FUNCTION) if target is not None else None
            if target is not None and run is not None and ".ipynb" in (run.made or call.place.file):
                yield code_finding(
                    RULE,
                    f"`{target.text}` is a function of this notebook: the processes that spawn starts cannot import it",
                    call.place,
                    remedy=f"move `{target.text}` into a module, or start the ranks with "
                    f"`ddpdoctor.notebook_launch({target.text})`",
                )
            continue
        way = _imported(graph, function, call)
        yield from _finding(call, way)
    for function, call in graph.calls("process"):
        if _starts_anew(graph, function, call):
            yield from _finding(call, _imported(graph, function, call))


def _starts_anew(graph: CallGraph, function: Function, process: Call) -> bool:
    """Whether a process is started with the spawn or forkserver method, so that it imports the file."""
    own = process.receiver.made if process.receiver is not None else frozenset()
    contexts = [graph.made[made][1] for made in own if made in graph.made]
    ways = contexts or [call for _, call in graph.calls_near(function, "start-method")]
    methods = [call.argument("method", 0) for call in ways]
    return any(given is not None and given.constant in {"'spawn'", "'forkserver'"} for given in methods)


def _finding(call: Call, way: Call | None) -> Iterator[Finding]:
    if way is not None:
        yield code_finding(
            RULE,
            'no `if __name__ == "__main__":` guards this: each process that is spawned imports the file and spawns again',
            call.place,
            *([way.place] if way is not call else []),
        )


def _imported(graph: CallGraph, function: Function, call: Call, depth: int = 3) -> Call | None:
    """The call in the module's own code that leads to the spawn and that no test guards; None where there is none."""
    if any(guard.form == "main" for guard in call.guards):
        return None
    if function.place.function == "<module>":
        module = graph.modules.get(function.id.partition("::")[0])
        started = module is not None and any(module.file == program.root for program in graph.code.programs)
        return call if started and not call.guards else None
    for caller, outer in graph.callers.get(function.id, ()) if depth else ():
        found = _imported(graph, caller, outer, depth - 1)
        if found is not None:
            return found
    return None

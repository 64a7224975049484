"""DDP733: a collective is in the handler of an exception that other ranks do not meet."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.later_calls import reduces_gradients
from ddpdoctor.analysis.training_code.reached_collectives import leads_to_collective
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, Guard
from ddpdoctor.messages.code_findings import code_finding, short, through
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP733",
    name="collective-in-handler",
    summary="a collective in an `except`: the ranks that met the exception wait for those that did not",
    severity=Severity.WARN,
    remedy="let the exception end the job, or decide with a collective that every rank makes whether one failed",
    leads_to=("DDP305",),
)
_SAME_EVERYWHERE = (
    "ImportError",
    "ModuleNotFoundError",
    "AttributeError",
    "NotImplementedError",
    "TypeError",
    "KeyboardInterrupt",
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each handler with a collective."""
    for function in graph.functions.values():
        seen: set[int] = set()
        for call in (each for each in function.calls if each.guards):
            handler = next((guard for guard in call.guards if guard.form == "except"), None)
            if (
                handler is None
                or not _in_handler(call, handler)
                or handler.line in seen
                or _is_the_same_everywhere(handler)
            ):
                continue
            reached = leads_to_collective(graph, call)
            if reached is None and not reduces_gradients(graph, call):
                continue
            if reached is not None and reached.call.does == "collective-run":  # a Trainer that is started again
                continue
            seen.add(handler.line)
            name = short(reached.call) if reached is not None else "the backward of the wrapped model"
            yield code_finding(
                RULE,
                f"{name} in `{f'except {handler.test}'.strip()}` (line {handler.line}): a rank that meets the exception "
                "waits for those that do not",
                call.place,
                notes=through(reached.through[1:]) if reached is not None else (),
            )


def _is_the_same_everywhere(handler: Guard) -> bool:
    """Whether all ranks meet the exceptions of a handler together: each of them is a mistake in the code, or Ctrl-C."""
    return all(any(name in each for name in _SAME_EVERYWHERE) for each in handler.test.split(","))


def _in_handler(call: Call, handler: Guard) -> bool:
    """Whether no test within the handler asks for the rank, for the process group, or for a value that all ranks share."""
    inside = call.guards[call.guards.index(handler) + 1 :]
    return all(
        one.form in {"if", "else"} and not one.state and one.by_rank is None and one.value.may(Kind.SHARED) is None
        for one in inside
    )

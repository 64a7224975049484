"""DDP734: only the members of a process group create it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.branches import answered_elsewhere
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.messages.code_findings import code_finding, fix, guarded
from ddpdoctor.model import Edit, Finding, Rule, Severity

RULE = Rule(
    code="DDP734",
    name="new-group-by-members-only",
    summary="new_group is called by some ranks only: all ranks must call it, members or not",
    severity=Severity.FAIL,
    remedy="call new_group on every rank, in the same order, and use the group on its members only",
    leads_to=("DDP315",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each new_group under a test of the rank."""
    for function, call in graph.calls("new-group"):
        local = call.argument("use_local_synchronization")
        if local is not None and local.constant != "False":
            continue
        guard = next((each for each in call.guards if each.by_rank and each.form not in {"after", "decorator"}), None)
        if guard is None or answered_elsewhere(graph, function, call, guard):
            continue
        yield code_finding(
            RULE,
            f"new_group is called {guarded(guard)}: the ranks that take the branch wait for the others, which never call it",
            call.place,
            because=guard.by_rank,
            remedy=f"move new_group out of `if {guard.test}`: every rank calls it, and only members use the group",
            fix=fix(Edit.ADD_ARGUMENT, call.place, new="use_local_synchronization=True", safe=False),
        )

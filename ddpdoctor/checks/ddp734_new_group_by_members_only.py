"""DDP734: only the members of a process group create it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.branches import answered_elsewhere
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.evidence.training_code import Call, Function, Guard
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
    """One finding for each new_group under a test of the rank, and for each of which the rank decides the members."""
    seen: set[tuple[str, int]] = set()
    for function, call in graph.calls("new-group"):
        local = call.argument("use_local_synchronization")
        if local is not None and local.constant != "False":
            continue
        guard = next((each for each in call.guards if each.by_rank and _decides(function, each)), None)
        if guard is None:
            yield from _of_own_members(call)
            continue
        if (guard.file, guard.line) in seen or (
            answered_elsewhere(graph, function, call, guard) and _same_members(function, call, guard)
        ):
            continue
        seen.add((guard.file, guard.line))
        yield code_finding(
            RULE,
            f"new_group is called {guarded(guard)}: the ranks that take the branch wait for the others, which never call it",
            call.place,
            because=guard.by_rank,
            remedy=f"move new_group out of `if {guard.test}`: every rank calls it, and only members use the group",
            fix=fix(Edit.ADD_ARGUMENT, call.place, new="use_local_synchronization=True", safe=False),
        )


def _decides(function: Function, guard: Guard) -> bool:
    """Whether a test lets some ranks only reach a line, and the others go on elsewhere."""
    if guard.form != "after":
        return guard.form != "decorator"
    left = (leave for leave in function.exits if not leave.fails)
    return any(
        one.form == "if" and (one.file, one.line) == (guard.file, guard.line) for each in left for one in each.guards
    )


def _same_members(function: Function, call: Call, guard: Guard) -> bool:
    """Whether the ranks that do not take the branch may create the same group: it is given the same ranks."""
    ranks = call.argument("ranks", 0)
    others = [
        other.argument("ranks", 0)
        for other in function.calls
        if other.does == "new-group" and other is not call and guard not in other.guards
    ]
    return ranks is None or not others or any(one is None or one.text == ranks.text for one in others)


def _picked_by_rank(origin: Origin) -> bool:
    """Whether the own number picks these: `[r for r in range(n) if r // 8 == node]`, or `nodes[rank // 8]`."""
    own = origin.note == "own" or (origin.note == "even" and origin.text.endswith("get_rank()"))
    return origin.kind is Kind.LOCAL and own


def _of_own_members(call: Call) -> Iterator[Finding]:
    """A group whose members each rank computes from its own number, so that each creates its own group and no other."""
    ranks = call.argument("ranks", 0)
    own = (
        (one for one in ranks.origins if (one.kind in RANK_KINDS and one.note != "uncertain") or _picked_by_rank(one))
        if ranks is not None
        else ()
    )
    origin = next(iter(own), None)
    if ranks is None or origin is None or origin.note == "by name":
        return
    yield code_finding(
        RULE,
        f"each rank creates the group of its own members `{ranks.text}` and no other: all ranks must create every group, in "
        "one order",
        call.place,
        because=origin,
        remedy="create the groups of all ranks in a loop, and keep the one that this rank belongs to",
        fix=fix(Edit.ADD_ARGUMENT, call.place, new="use_local_synchronization=True", safe=False),
    )

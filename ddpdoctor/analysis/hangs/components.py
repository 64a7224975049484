"""The parts of a directed graph that all of its paths end in."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TypeVar

from ddpdoctor.grouping import grouped

N = TypeVar("N", bound=Hashable)


def final_components(edges: Mapping[N, Collection[N]]) -> list[frozenset[N]]:
    """The sets of nodes that reach each other and nothing else."""
    members = _components(edges)
    component = {node: number for number, nodes in enumerate(members) for node in nodes}
    left = {component[node] for node, after in edges.items() for one in after if component[one] != component[node]}
    return [frozenset(nodes) for number, nodes in enumerate(members) if number not in left]


def on_a_cycle(edges: Mapping[N, Collection[N]]) -> set[N]:
    """The nodes from which a path leads back to them, over other nodes."""
    return {node for nodes in _components(edges) if len(nodes) > 1 for node in nodes}


def _components(edges: Mapping[N, Collection[N]]) -> list[list[N]]:
    """The sets of nodes that reach each other, in time linear in nodes and edges (Tarjan's algorithm)."""
    index: dict[N, int] = {}
    lowest: dict[N, int] = {}
    component: dict[N, int] = {}
    members: list[list[N]] = []
    path: list[N] = []
    for start in edges:
        if start in index:
            continue
        index[start] = lowest[start] = len(index)
        path.append(start)
        pending = [(start, iter(edges[start]))]
        while pending:
            node, following = pending[-1]
            for after in following:
                if after not in index:
                    index[after] = lowest[after] = len(index)
                    path.append(after)
                    pending.append((after, iter(edges.get(after, ()))))
                    break
                if after not in component:
                    lowest[node] = min(lowest[node], index[after])
            else:
                pending.pop()
                if pending:
                    lowest[pending[-1][0]] = min(lowest[pending[-1][0]], lowest[node])
                if lowest[node] == index[node]:
                    members.append([])
                    while True:
                        last = path.pop()
                        component[last] = len(members) - 1
                        members[-1].append(last)
                        if last == node:
                            break
    return members


def reaching(edges: Mapping[N, Collection[N]], goals: Iterable[N]) -> set[N]:
    """The nodes from which a path leads to one of the goals, these included."""
    backwards = grouped((one, node) for node, after in edges.items() for one in after)
    found = {*goals}
    pending = [*found]
    while pending:
        for node in backwards.get(pending.pop(), ()):
            if node not in found:
                found.add(node)
                pending.append(node)
    return found

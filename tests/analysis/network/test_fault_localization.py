"""A bad row and column is a node, a block a switch, one cell a link."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ddpdoctor.analysis.network.fault_localization import LinkFaults, attribute


def matrix(nodes: int, bad: Callable[[int, int], bool]) -> dict[tuple[int, int], bool]:
    return {(a, b): not bad(a, b) for a in range(nodes) for b in range(nodes) if a != b}


@pytest.mark.parametrize(
    ("nodes", "bad", "found"),
    [
        (5, lambda a, b: False, LinkFaults()),
        (3, lambda a, b: 1 in (a, b), LinkFaults(nodes=(1,))),
        (5, lambda a, b: {1, 4} & {a, b}, LinkFaults(nodes=(1, 4))),
        (3, lambda a, b: (a, b) == (0, 2), LinkFaults(links=((0, 2),))),
        (3, lambda a, b: b == 2, LinkFaults(ingress=(2,))),
        (4, lambda a, b: a == 2, LinkFaults(egress=(2,))),
        (5, lambda a, b: 3 in (a, b) or (a, b) == (0, 1), LinkFaults(nodes=(3,), links=((0, 1),))),
        (5, lambda a, b: (a < 2) != (b < 2), LinkFaults(blocks=(((0, 1), (2, 3, 4)),))),
        (8, lambda a, b: (a < 4) != (b < 4), LinkFaults(blocks=(((0, 1, 2, 3), (4, 5, 6, 7)),))),
        (2, lambda a, b: True, LinkFaults(links=((0, 1), (1, 0)))),
    ],
)
def test_what_accounts_for_the_bad_cells(nodes: int, bad: Callable[[int, int], bool], found: LinkFaults) -> None:
    assert attribute(matrix(nodes, bad)) == found

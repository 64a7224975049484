"""How many collectives a rank has made, as the flight recorder counts them: gloo's own count has more."""

from __future__ import annotations

from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from ddpdoctor.agent.inside.calls.collective_hooks import CollectiveHooks


class Group:
    """A process group that counts as gloo does: every collective, every send and every receive."""

    group_name, group_desc = "0", "default_pg"

    def __init__(self) -> None:
        self.number = 0

    def name(self) -> str:
        return "gloo"

    def _get_sequence_number_for_group(self) -> int:
        return self.number


def rank_with(group: Group, hears: int) -> CollectiveHooks:
    """The hooks of a rank that hears `hears` others in a monitored barrier: rank 0 all of them, the others rank 0."""
    c10d: Any = ModuleType("c10d")

    def counting(by: int) -> Any:
        def function(group: Group | None = None, tag: int = 0) -> None:
            group = group or c10d._get_default_group()
            group.number += by

        return function

    c10d.all_reduce, c10d.send, c10d.monitored_barrier = counting(1), counting(1), counting(2 * hears)
    c10d.new_group = lambda *_: group
    c10d._get_default_group = lambda: group
    hooks = CollectiveHooks(c10d)
    hooks.log = MagicMock()
    c10d.all_reduce()
    c10d.monitored_barrier()
    c10d.send(tag=7)
    c10d.all_reduce()
    return hooks


@pytest.mark.parametrize("peers_of_rank_0", [1, 2, 7])
def test_ranks_have_made_equally_many_collectives_after_a_monitored_barrier(peers_of_rank_0: int) -> None:
    group, other = Group(), Group()
    assert rank_with(group, hears=peers_of_rank_0).made(group) == rank_with(other, hears=1).made(other) == 4

"""Schedules meet every pair once, and two passes accuse nobody who is innocent."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpdoctor.analysis.network.fault_localization import LinkFaults, attribute
from ddpdoctor.analysis.network.link_speeds import is_slow, median_speed
from ddpdoctor.analysis.network.suspects import slow
from ddpdoctor.evidence.links import Links, NodeLink
from ddpdoctor.net.pair_schedule import Planner, circle, nccl_links


@given(st.integers(2, 40))
def test_every_pair_meets_once_and_nobody_is_in_two_places(nodes: int) -> None:
    rounds = list(circle(range(nodes)))

    assert len(rounds) == (nodes - 1 if nodes % 2 == 0 else nodes)
    pairs = [pair for together in rounds for pair in together]
    assert len(pairs) == len(set(pairs)) == nodes * (nodes - 1) // 2
    for together in rounds:
        ends = [node for pair in together for node in pair]
        assert len(ends) == len(set(ends))


def simulate(nodes: int, good: Callable[[int, int], bool], seed: int = 0):
    """Run the real planner where `good` says how each direction goes; what it accuses, its rounds and its conversations."""
    planner = Planner(range(nodes), seed=seed)
    tried: dict[tuple[int, int], bool] = {}
    talks = 0
    while pairs := planner.next_round():
        ends = [node for pair in pairs for node in pair]
        assert len(ends) == len(set(ends))
        for one, other in pairs:
            talks += 1
            tried[one, other], tried[other, one] = good(one, other), good(other, one)
            planner.report((one, other), good=tried[one, other] and tried[other, one])
    found = attribute(tried)
    accused = len(found.nodes) + len(found.ingress) + len(found.egress) + len(found.blocks) + len(found.links)
    print(f"{nodes} nodes: {planner.rounds} rounds, {talks} conversations, {accused} accused")
    return found, planner.rounds, talks


@settings(max_examples=200, deadline=None)
@given(st.integers(3, 16), st.data())
def test_small_jobs_are_exact_with_one_bad_node_or_link(nodes: int, data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        node = data.draw(st.integers(0, nodes - 1))
        found, _, _ = simulate(nodes, lambda a, b: node not in (a, b))
        assert found.nodes == (node,)
        assert not found.links
    else:
        pair = tuple(sorted(data.draw(st.lists(st.integers(0, nodes - 1), min_size=2, max_size=2, unique=True))))
        found, _, _ = simulate(nodes, lambda a, b: {a, b} != {*pair})
        assert set(found.links) == {pair, pair[::-1]}
        assert not found.nodes


@pytest.mark.parametrize("nodes", [17, 32, 64, 256, 1024, 4096])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.25])
def test_large_jobs_accuse_every_bad_node_and_no_other_up_to_a_quarter(nodes: int, share: float) -> None:
    generator = random.Random(nodes)
    bad = set(generator.sample(range(nodes), int(share * nodes)))

    found, rounds, _ = simulate(nodes, lambda a, b: not bad & {a, b}, seed=nodes)

    assert set(found.nodes) == bad
    assert not found.links
    assert rounds <= 40


@pytest.mark.parametrize("nodes", [64, 512, 4096])
def test_bad_links_among_bad_nodes_never_accuse_an_innocent_node(nodes: int) -> None:
    generator = random.Random(nodes + 1)
    bad = set(generator.sample(range(nodes), nodes // 8))
    links = set()
    while len(links) < nodes // 8:
        a, b = sorted(generator.sample(range(nodes), 2))
        links.add((a, b))

    def good(a: int, b: int) -> bool:
        return not bad & {a, b} and (min(a, b), max(a, b)) not in links

    found, _, _ = simulate(nodes, good, seed=nodes)

    assert set(found.nodes) == bad
    assert {tuple(sorted(link)) for link in found.links} <= links


def test_nccl_opens_a_ring_and_two_trees() -> None:
    """Eight nodes: the first tree hangs at 4 below 0, the second is its mirror."""
    ring = {(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (0, 7)}
    tree = {(0, 4), (2, 4), (4, 6), (1, 2), (2, 3), (5, 6), (6, 7)}
    mirrored = {(3, 7), (3, 5), (1, 3), (5, 6), (4, 5), (1, 2), (0, 1)}
    assert nccl_links(range(8)) == ring | tree | mirrored


@pytest.mark.parametrize("nodes", [17, 64, 333, 4096])
def test_a_single_dead_link_that_nccl_opens_is_found_for_certain(nodes: int) -> None:
    opened = sorted(nccl_links(range(nodes)))
    for dead in random.Random(nodes).sample(opened, 2):
        found, rounds, _ = simulate(nodes, lambda a, b, dead=dead: {a, b} != {*dead})
        assert found == LinkFaults(links=(dead, dead[::-1]))
        assert rounds <= 20


@pytest.mark.parametrize("nodes", [17, 64, 256, 1024])
@pytest.mark.parametrize("share", [0.1, 0.25])
def test_nodes_that_only_hear_or_only_speak(nodes: int, share: float) -> None:
    generator = random.Random(nodes)
    bad = generator.sample(range(nodes), int(share * nodes))
    ingress, egress = set(bad[::2]), set(bad[1::2])

    found, _, _ = simulate(nodes, lambda a, b: a not in egress and b not in ingress, seed=nodes)

    assert (set(found.ingress), set(found.egress)) == (ingress, egress)
    assert (found.nodes, found.blocks, found.links) == ((), (), ())


@pytest.mark.parametrize("nodes", [17, 64, 256, 1024, 4096])
@pytest.mark.parametrize("behind", [2, 8])
def test_a_broken_switch_accuses_no_node(nodes: int, behind: int) -> None:
    """One of so many racks is cut off: its nodes talk to each other and to nobody else."""
    rack = nodes // behind

    found, _, _ = simulate(nodes, lambda a, b: (a < rack) == (b < rack), seed=nodes)

    assert found == LinkFaults(blocks=((tuple(range(rack)), tuple(range(rack, nodes))),))


@pytest.mark.parametrize("nodes", [3, 5, 16, 64, 200])
def test_slow_nodes_are_found_by_their_figures(nodes: int) -> None:
    """As `slow` does: each direction against the median node's, with links that differ by a third."""
    generator = random.Random(nodes)
    bad = set(generator.sample(range(nodes), max(1, nodes // 8)))
    links: dict[tuple[int, int], NodeLink] = {}

    def good(a: int, b: int) -> bool:
        speed = generator.uniform(0.67e9, 1e9) * (0.1 if bad & {a, b} else 1)
        links[a, b] = NodeLink(source=a, target=b, outcome="ok", bytes_per_second=speed)
        majority = median_speed(links.values())
        return majority is None or not is_slow(links[a, b], majority)

    simulate(nodes, good, seed=nodes)

    assert set(slow(Links(expected=nodes, nodes=(), links=tuple(links.values()))).nodes) == bad

"""Schedules meet every pair once, and two passes accuse nobody who is innocent."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpdoctor.analysis.culprits import attribute
from ddpdoctor.analysis.rounds import Planner, circle


@given(st.integers(2, 40))
def test_every_pair_meets_once_and_nobody_is_in_two_places(nodes: int) -> None:
    rounds = list(circle(range(nodes)))

    assert len(rounds) == (nodes - 1 if nodes % 2 == 0 else nodes)
    pairs = [pair for together in rounds for pair in together]
    assert len(pairs) == len(set(pairs)) == nodes * (nodes - 1) // 2
    for together in rounds:
        ends = [node for pair in together for node in pair]
        assert len(ends) == len(set(ends))


def simulate(nodes: int, bad_nodes: set[int], bad_links: set[tuple[int, int]], seed: int):
    """Run the real planner against planted faults; what it accuses, its rounds and its conversations."""
    planner = Planner(range(nodes), seed=seed)
    tried: dict[tuple[int, int], bool] = {}
    talks = 0
    while pairs := planner.next_round():
        ends = [node for pair in pairs for node in pair]
        assert len(ends) == len(set(ends))
        for pair in pairs:
            good = not bad_nodes & set(pair) and pair not in bad_links
            talks += 1
            planner.report(pair, good=good)
            tried[pair] = tried[pair[::-1]] = good
    return attribute(tried), planner.rounds, talks


@settings(max_examples=200, deadline=None)
@given(st.integers(3, 16), st.data())
def test_small_jobs_are_exact_with_one_bad_node_or_link(nodes: int, data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        node = data.draw(st.integers(0, nodes - 1))
        found, _, _ = simulate(nodes, {node}, set(), 0)
        assert found.nodes == (node,)
        assert not found.links
    else:
        pair = tuple(sorted(data.draw(st.lists(st.integers(0, nodes - 1), min_size=2, max_size=2, unique=True))))
        found, _, _ = simulate(nodes, set(), {pair}, 0)
        assert set(found.links) == {pair, pair[::-1]}
        assert not found.nodes


@pytest.mark.parametrize("nodes", [17, 32, 64, 256, 1024, 4096])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.25])
def test_large_jobs_accuse_every_bad_node_and_no_other_up_to_a_quarter(nodes: int, share: float) -> None:
    generator = random.Random(nodes)
    bad = set(generator.sample(range(nodes), int(share * nodes)))

    found, rounds, talks = simulate(nodes, bad, set(), seed=nodes)

    print(f"{nodes} nodes, {len(bad)} bad: {rounds} rounds, {talks} conversations, {len(found.nodes)} accused")
    assert set(found.nodes) == bad
    assert not found.links
    assert rounds <= 24


@pytest.mark.parametrize("nodes", [64, 512, 4096])
def test_bad_links_among_bad_nodes_never_accuse_an_innocent_node(nodes: int) -> None:
    generator = random.Random(nodes + 1)
    bad = set(generator.sample(range(nodes), nodes // 8))
    links = set()
    while len(links) < nodes // 8:
        a, b = sorted(generator.sample(range(nodes), 2))
        links.add((a, b))

    found, _, _ = simulate(nodes, bad, links, seed=nodes)

    assert set(found.nodes) == bad
    assert {tuple(sorted(link)) for link in found.links} <= links

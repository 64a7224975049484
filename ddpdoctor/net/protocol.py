"""What one node does once it has reached the store: say who it is, talk to its partner of each round, leave.

Node 0 also decides the rounds and gathers what everybody found.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec

from ddpdoctor.analysis.network.link_speeds import is_late, is_slow, median_latency, median_speed
from ddpdoctor.evidence.launch import Arrival, RankSet
from ddpdoctor.evidence.links import Link, Links, Node
from ddpdoctor.net.link_test import CONNECT_SECONDS, ECHO_SECONDS, STREAM_SECONDS, talk
from ddpdoctor.net.pair_schedule import Pair, Planner
from ddpdoctor.net.store_mailbox import POLL_SECONDS, Messages

ROUND_SECONDS = 2 * (CONNECT_SECONDS + 2 * ECHO_SECONDS + 2 * STREAM_SECONDS)
"""What a round may take in which everything stalls, both directions one after the other."""

SETTLE_SECONDS = 1.0  # what a node may lag behind its partner
LATE_SECONDS = 10.0  # what a node may come after one that was started twice: an import of torch on a busy host


@dataclass(frozen=True, slots=True, kw_only=True)
class Self:
    """What a node says of itself: where it listens, and its facts by kind, for the checks of node 0."""

    node: int
    nodes: int
    host: str
    pid: int
    address: str
    port: int
    speed_mbit: int | None
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundAnswers:
    """What node 0 knows in the end."""

    links: Links
    nodes: tuple[Self, ...]
    ranks: RankSet


def introduce(messages: Messages, me: Self) -> bool:
    """Say who this node is. False where another host has said that it is this node."""
    turn = messages.count(f"claim/{me.node}")
    messages.say(f"node/{me.node}/{turn}", asdict(me))
    return turn == 1


def follow(messages: Messages, me: Self, token: bytes, *, until: float) -> bool:
    """Take part in every round until node 0 says that it is over. False where it fell silent or left this node out."""
    plan = messages.hear("plan", until=until)
    if plan is None or me.node not in plan["nodes"]:
        return False
    everyone = {int(number): (str(address), int(port)) for number, (address, port) in plan["where"].items()}
    number = 0
    while True:
        number += 1
        pairs = messages.hear(f"round/{number}", until=until)
        if pairs is None:
            return False
        if not pairs:
            return True
        partner = next((a if b == me.node else b for a, b in pairs if me.node in (a, b)), None)
        if partner is not None:
            _take_turns(messages, me.node, partner, everyone[partner], token, number, until)


def _take_turns(
    messages: Messages, me: int, partner: int, where: tuple[str, int], token: bytes, number: int, until: float
) -> None:
    """Both directions, the lower node first, so that neither measures the other's stream."""
    if me > partner:
        end = min(until, time.monotonic() + ROUND_SECONDS / 2 + SETTLE_SECONDS)
        messages.hear(f"link/{number}/{partner}", until=end, while_alive=partner)
    messages.say(f"link/{number}/{me}", asdict(talk(me, partner, *where, token)))


def lead(messages: Messages, me: Self, token: bytes, *, expected: int, join_until: float, until: float) -> RoundAnswers:
    """Wait for the nodes, set the rounds, take part in them, and gather everybody's links."""
    start = time.monotonic()
    present = _wait_for_nodes(messages, expected, join_until)
    everyone = {node.node: (node.address, node.port) for node in present}
    messages.say("plan", {"nodes": sorted(everyone), "where": everyone})
    planner = Planner(everyone)
    found: dict[Pair, Link] = {}
    lost: list[int] = []
    number = 0
    while time.monotonic() < until and (planned := planner.next_round()):
        pairs = [pair for pair in planned if not {*lost} & {*pair}]
        if not pairs:  # which would tell the others that it is over
            continue
        number += 1
        messages.say(f"round/{number}", pairs)
        mine = next((a if b == me.node else b for a, b in pairs if me.node in (a, b)), None)
        if mine is not None:
            _take_turns(messages, me.node, mine, everyone[mine], token, number, until)
        heard = _gather_round(messages, pairs, number, until)
        found.update({direction: better(found.get(direction), link) for direction, link in heard.items()})
        for pair in pairs:
            if time.monotonic() < until:
                lost += [me for me, other in (pair, pair[::-1]) if (me, other) not in heard]
        tell(planner, found, pairs)
    messages.say(f"round/{number + 1}", [])
    again = _claims(messages, expected, turn=2)
    return RoundAnswers(
        nodes=tuple(present),
        ranks=RankSet(
            world_size=expected,
            deadline_seconds=round(join_until - start, 1),
            arrivals=tuple(
                Arrival(rank=each.node, world_size=each.nodes, host=each.host, pid=each.pid)
                for each in (*present, *again)
            ),
        ),
        links=Links(
            expected=expected,
            nodes=tuple(
                Node(node=each.node, host=each.host, address=each.address, speed_mbit=each.speed_mbit)
                for each in present
            ),
            links=tuple(found[direction] for direction in sorted(found)),
            lost=tuple(sorted(set(lost))),
            rounds=number,
            complete=time.monotonic() < until,
            seconds=time.monotonic() - start,
        ),
    )


def better(before: Link | None, now: Link) -> Link:
    """The better of two looks at one direction: a link is not accused for one bad moment."""
    if before is None or (now.outcome == "ok" and before.outcome != "ok"):
        return now
    if now.outcome != "ok":
        return now if before.outcome != "ok" else before
    seconds = [link.latency_seconds for link in (before, now) if link.latency_seconds is not None]
    best = max(before, now, key=lambda link: link.bytes_per_second or 0.0)
    return replace(best, latency_seconds=min(seconds, default=None))


def tell(planner: Planner, found: Mapping[Pair, Link], pairs: list[Pair]) -> None:
    """Tell the planner which pairs need no second look: both directions talk, as fast and as soon as is usual by now."""
    speed, latency = median_speed(found.values()), median_latency(found.values())

    def good(pair: Pair) -> bool:
        links = [found.get(pair), found.get(pair[::-1])]
        return all(
            link is not None
            and link.outcome == "ok"
            and not (speed is not None and is_slow(link, speed))
            and not (latency is not None and is_late(link, latency))
            for link in links
        )

    for pair in {*pairs, *((min(ends), max(ends)) for ends in found)}:
        planner.report(pair, good=good(pair))


def _wait_for_nodes(messages: Messages, expected: int, until: float) -> list[Self]:
    """The nodes that came, without those that claim the number of another.

    Where as many came as should and two of them claim one number, that leaves one number to nobody, unless a node was
    started twice: it gets a moment more.
    """
    present: list[Self] = []
    while len(present) < expected and time.monotonic() < until:
        present = _claims(messages, expected, turn=1)
        if len(present) + len(_claims(messages, expected, turn=2)) >= expected:
            until = min(until, time.monotonic() + LATE_SECONDS)
        time.sleep(POLL_SECONDS)
    return present


def _claims(messages: Messages, expected: int, *, turn: int) -> list[Self]:
    """Who said, as the first or second, to be a node, by number."""
    said = (messages.hear(f"node/{number}/{turn}", until=0.0) for number in range(expected))
    return [msgspec.convert(each, Self) for each in said if each is not None]


def _gather_round(messages: Messages, pairs: list[Pair], number: int, until: float) -> dict[Pair, Link]:
    end = min(until, time.monotonic() + ROUND_SECONDS)
    heard = {}
    for pair in pairs:
        for me, other in (pair, pair[::-1]):
            said = messages.hear(f"link/{number}/{me}", until=end, while_alive=me)
            if said is not None:
                heard[me, other] = msgspec.convert(said, Link)
    return heard

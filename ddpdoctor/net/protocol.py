"""What one node does once it has reached the store: say who it is, talk to its partner of each round, leave.

Node 0 also decides the rounds and gathers what everybody found. It tells each node its own turns alone, so that what the store
sends grows with the number of nodes and not with its square. A node whose messages cannot be used is left out and named; the
rounds go on without it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Literal, TypeAlias

from ddpdoctor.analysis.network.link_speeds import is_late, is_slow, median_latency, median_speed
from ddpdoctor.evidence.launch import Arrival, RankSet
from ddpdoctor.evidence.links import Links, Node, NodeLink
from ddpdoctor.launch import attendance
from ddpdoctor.net.introductions import Introduction, Introductions
from ddpdoctor.net.keys import Keys
from ddpdoctor.net.link_test import CONNECT_SECONDS, ECHO_SECONDS, STREAM_SECONDS, talk
from ddpdoctor.net.pair_schedule import Pair, Planner
from ddpdoctor.net.store_mailbox import Messages
from ddpdoctor.transport.peer_message import Name, Number, PeerError, Port, need_seconds

ROUND_SECONDS = 2 * (CONNECT_SECONDS + 2 * ECHO_SECONDS + 2 * STREAM_SECONDS)
"""What a round may take in which everything stalls, both directions one after the other."""

SETTLE_SECONDS = 1.0  # what a node may lag behind its partner
MOST_DETAIL = 400  # characters of an error that another node reports
POLL_SECONDS = 0.02
LOOK_SECONDS = 1.0  # for nodes whose introduction is there though they have not counted themselves
LATE_SECONDS = 10.0  # what a node may come after one that was started twice: an import of torch on a busy host


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What node 0 says to all before the first turn: who has turns."""

    expected: Number
    """The nodes below this number are told their turns, or that they are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What node 0 tells one node: whom to talk to next."""

    round: Number
    """The number of the round, the same on all nodes."""
    partner: Number
    """The other node."""
    address: Name
    """Where the other node listens."""
    port: Port
    """Where the other node listens."""
    public: str
    """The other node's public number."""


Ending: TypeAlias = Literal["over", "left out"]
"""What node 0 says to one node instead of a turn."""
Message: TypeAlias = Turn | Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundAnswers:
    """What node 0 knows in the end."""

    links: Links
    """Every direction that was tested, and the nodes between them."""
    nodes: tuple[Introduction, ...]
    """The nodes that took part, by number."""
    ranks: RankSet
    """All nodes that came, also those under a number that another one had."""
    left_out: tuple[str, ...] = ()
    """The nodes whose messages could not be used, each with the reason."""


def introduce(messages: Messages, me: Introduction) -> bool:
    """Say who this node is. False where another host has said that it is this node."""
    turn = messages.count(f"claim/{me.node}")
    messages.say(f"node/{me.node}/{turn}", asdict(me))
    messages.count("introduced")
    return turn == 1


def follow(messages: Messages, me: Introduction, keys: Keys, *, until: float) -> bool:
    """Take part in every round until node 0 says that it is over. False where it fell silent or left this node out.

    Raises:
        PeerError: a message of node 0 cannot be used.
    """
    plan: Plan | None = messages.hear("plan", Plan, until=until)
    if plan is None or me.node >= plan.expected:
        return False
    for number in count(1):
        message: Message | None = messages.hear(_turn(me.node, number), Message, until=until)
        if not isinstance(message, Turn):
            return message == "over"
        keys.learn({message.partner: message.public})
        _take(message, messages, me.node, keys, until)
    raise AssertionError


def _turn(node: int, number: int) -> str:
    """The key under which node 0 leaves the turns of a node, which are counted from 1."""
    return f"turn/{node}/{number}"


def _take(turn: Turn, messages: Messages, me: int, keys: Keys, until: float) -> None:
    """Both directions, the lower node first, so that neither measures the other's stream."""
    if me > turn.partner:
        end = min(until, time.monotonic() + ROUND_SECONDS / 2 + SETTLE_SECONDS)
        messages.comes(f"link/{turn.round}/{turn.partner}", until=end, while_alive=turn.partner)
    key = keys.of(turn.partner)
    if key is not None:
        link = talk(me, turn.partner, turn.address, turn.port, key)
        messages.say(f"link/{turn.round}/{me}", asdict(link))


class _Turns:
    """Node 0's side: who takes part, and how many turns each has been told."""

    def __init__(self, messages: Messages, present: Sequence[Introduction], expected: int) -> None:
        self._messages = messages
        self._nodes = {node.node: node for node in present}
        self._told = dict.fromkeys(self._nodes, 0)
        for absent in {*range(expected)} - {*self._nodes}:
            messages.say(_turn(absent, 1), "left out")
        messages.say("plan", asdict(Plan(expected=expected)))

    def tell(self, number: int, pairs: Iterable[Pair]) -> dict[int, Turn]:
        """Say to each node of these pairs that it has a turn in this round; returned as well, by node."""
        turns = {}
        for pair in pairs:
            for me, other in (pair, pair[::-1]):
                partner = self._nodes[other]
                turns[me] = Turn(
                    round=number,
                    partner=other,
                    address=partner.address,
                    port=partner.port,
                    public=partner.public,
                )
                self._say(me, asdict(turns[me]))
        return turns

    def end(self) -> None:
        """Say to each node that it is over."""
        for node in self._nodes:
            self._say(node, "over")

    def _say(self, node: int, what: object) -> None:
        self._told[node] += 1
        self._messages.say(_turn(node, self._told[node]), what)


def lead(
    messages: Messages, me: Introduction, keys: Keys, *, expected: int, join_until: float, until: float
) -> RoundAnswers:
    """Wait for the nodes, set the rounds, take part in them, and gather everybody's links."""
    start = time.monotonic()
    come = Introductions(messages, expected)
    present = _wait_for_nodes(messages, come, expected, join_until)
    everyone = [node.node for node in present]
    called = {node.node: node.called for node in present}
    keys.learn({node.node: node.public for node in present})
    turns = _Turns(messages, present, expected)
    planner = Planner(everyone)
    found: dict[Pair, NodeLink] = {}
    lost: list[int] = []
    left_out: dict[int, str] = {}
    number = 0
    while time.monotonic() < until and (planned := planner.next_round()):
        pairs = [pair for pair in planned if not {*lost, *left_out} & {*pair}]
        if not pairs:
            continue
        number += 1
        mine = turns.tell(number, pairs).get(me.node)
        if mine is not None:
            _take(mine, messages, me.node, keys, until)
        heard, wrong = _gather_round(messages, pairs, number, until)
        left_out.update({node: f"{called[node]} was left out: {why}" for node, why in wrong.items()})
        found.update({direction: better(found.get(direction), link) for direction, link in heard.items()})
        for pair in pairs:
            if time.monotonic() < until:
                lost += [me for me, other in (pair, pair[::-1]) if (me, other) not in heard and me not in left_out]
        tell(planner, found, pairs)
    turns.end()
    again = come.look(turn=2)
    return RoundAnswers(
        nodes=tuple(present),
        ranks=_arrivals((*present, *again), expected, round(join_until - start, 1)),
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
        left_out=(*(why for _, why in sorted(come.left_out.items())), *(why for _, why in sorted(left_out.items()))),
    )


def _arrivals(come: Iterable[Introduction], expected: int, deadline_seconds: float) -> RankSet:
    """Who introduced itself, a node that did so twice as often."""
    return RankSet(
        world_size=expected,
        deadline_seconds=deadline_seconds,
        arrivals=tuple(Arrival(rank=each.node, world_size=each.nodes, host=each.host, pid=each.pid) for each in come),
    )


def better(before: NodeLink | None, now: NodeLink) -> NodeLink:
    """The better of two looks at one direction: a link is not accused for one bad moment."""
    if before is None or (now.outcome == "ok" and before.outcome != "ok"):
        return now
    if now.outcome != "ok":
        return now if before.outcome != "ok" else before
    seconds = [link.latency_seconds for link in (before, now) if link.latency_seconds is not None]
    best = max(before, now, key=lambda link: link.bytes_per_second or 0.0)
    return replace(best, latency_seconds=min(seconds, default=None))


def tell(planner: Planner, found: Mapping[Pair, NodeLink], pairs: list[Pair]) -> None:
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


def _wait_for_nodes(messages: Messages, come: Introductions, expected: int, until: float) -> list[Introduction]:
    """The nodes that came, without those that claim the number of another.

    It asks the store for one number until that changes, and only then for every node. Where as many came as should and two of
    them claim one number, that leaves one number to nobody, unless a node was started twice: it gets a moment more.
    """
    present: list[Introduction] = []
    introduced, look_at = -1, 0.0
    while len(present) + len(come.left_out) < expected and time.monotonic() < until:
        before, introduced = introduced, messages.counted("introduced")
        if introduced != before or time.monotonic() > look_at:
            look_at = time.monotonic() + LOOK_SECONDS
            present = come.look(turn=1)
            if len(present) + len(come.look(turn=2)) + len(come.left_out) >= expected:
                until = min(until, time.monotonic() + LATE_SECONDS)
        attendance.note((node.node for node in present), complete=False)
        time.sleep(POLL_SECONDS)
    attendance.note((node.node for node in present), complete=True)
    return present


def _gather_round(
    messages: Messages, pairs: list[Pair], number: int, until: float
) -> tuple[dict[Pair, NodeLink], dict[int, str]]:
    """What came of each direction, and the nodes whose message cannot be used, each with the reason."""
    end = min(until, time.monotonic() + ROUND_SECONDS)
    heard: dict[Pair, NodeLink] = {}
    wrong: dict[int, str] = {}
    for pair in pairs:
        for me, other in (pair, pair[::-1]):
            try:
                link = _heard(messages, me, other, number, end)
            except PeerError as error:  # noqa: PERF203 - one lies, the others are heard
                wrong[me] = str(error)
            else:
                if link is not None:
                    heard[me, other] = link
    return heard, wrong


def _heard(messages: Messages, me: int, other: int, number: int, until: float) -> NodeLink | None:
    """What node `me` says that it measured of node `other`; None where it says nothing.

    Raises:
        PeerError: it cannot have measured that.
    """
    link: NodeLink | None = messages.hear(f"link/{number}/{me}", NodeLink, until=until, while_alive=me)
    if link is None:
        return None
    if (link.source, link.target) != (me, other):
        raise PeerError(f"it reports the link from {link.source} to {link.target} instead of {me} to {other}")
    need_seconds(link.latency_seconds, "its latency")
    need_seconds(link.bytes_per_second, "its speed")
    return replace(link, detail=link.detail[:MOST_DETAIL])

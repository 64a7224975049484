"""One node's part in `ddpdoctor net`: finds the others through MASTER_ADDR, talks to each, prints JSON lines.

The first line is how far it came to the master; node 0 ends with what all nodes found.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeAlias

import msgspec
import torch.distributed  # noqa: F401 - paid for before any clock runs

from ddpdoctor.analysis.network.socket_interface import GLOO, gloo_choice
from ddpdoctor.evidence import Missing
from ddpdoctor.evidence.links import Links, MasterProbe
from ddpdoctor.evidence.network import Master, Network
from ddpdoctor.host import environment, network
from ddpdoctor.host.host_access import HostAccess
from ddpdoctor.host.nccl_transport_test import gpus_for_nccl, try_transports
from ddpdoctor.launch import attendance
from ddpdoctor.launch.guarded_process import run
from ddpdoctor.launch.net_process import JOIN_SHARE
from ddpdoctor.launch.ranks import our_file
from ddpdoctor.net.group_answers import GroupAnswer, GroupAnswers, NcclAnswer, groups_of, tries_of
from ddpdoctor.net.introductions import Introduction
from ddpdoctor.net.keys import Keys
from ddpdoctor.net.protocol import follow, introduce, lead
from ddpdoctor.net.rendezvous_probe import RendezvousReached, another_connection, host_store, reach
from ddpdoctor.net.store_mailbox import Messages
from ddpdoctor.net.tcp import GREETING_SECONDS, Listener
from ddpdoctor.transport.peer_message import Number, PeerError, Text
from ddpdoctor.transport.peer_names import look_up_names_in_files_only

Members: TypeAlias = tuple[Number, ...]
Strangers: TypeAlias = tuple[Text, ...]

LEAVE_SECONDS = 3.0
OWN_STORE_SECONDS = 3.0  # to reach the store that this process holds itself
GROUPS_LEAST_SECONDS = 15.0  # torch's import, and a group that times out


def main() -> int:
    """Take part; 0 where this node reached the others' store and the rounds came to their end."""
    options = _options()
    start = time.monotonic()
    until, join_until = start + options.deadline, start + JOIN_SHARE * options.deadline
    _end_at(options.deadline + LEAVE_SECONDS)
    facts = [
        fact
        for fact in (*environment.collect(HostAccess()), *network.collect(HostAccess()))
        if not isinstance(fact, Missing)
    ]
    for fact in facts:
        say(type(fact).__name__, msgspec.to_builtins(fact))
    reached = reach_store(options, join_until)
    say_probe(reached.probe)
    if reached.store is None:
        return 1
    here = next(fact for fact in facts if isinstance(fact, Network))
    master = next((fact for fact in facts if isinstance(fact, Master)), None)
    address = own_address(here, master, reached.address or options.master_addr)
    look_up_names_in_files_only()  # not before: the names above may be those of the name service
    runs = f"ddpdoctor/net/{options.run}/runs"  # a launcher's store still has the messages of the command before
    messages = Messages(reached.store, f"ddpdoctor/net/{options.run}/{reached.store.add(runs, 0)}")
    keys = Keys(options.node, options.nodes)
    stop = threading.Event()
    key_of, lifetime = partial(keys.of, wait_seconds=GREETING_SECONDS), until - time.monotonic()
    with Listener(address, key_of, options.node, lifetime_seconds=lifetime) as listener:
        me = introduction(options, here, facts, keys.public, (address, listener.port))
        threading.Thread(target=show_life, args=(messages, options, reached.address, stop), daemon=True).start()
        try:
            if not introduce(messages, me):
                return 0  # another process is this node; node 0 names both
            if options.node != 0:
                return 0 if take_part(messages, options, me, keys, listener, at=reached.address, until=until) else 1
            others = report(messages, options, me, keys, at=reached.address, join_until=join_until, until=until)
            with contextlib.suppress(RuntimeError):  # the store has ended: nobody comes after us
                reached.store.add(runs, 1)
            _wait_until_others_left(messages, others)
            strangers = GroupAnswers(messages, {}).of(range(1, options.nodes), "strangers", Strangers, until=0.0)
            say("strangers", {**strangers, 0: listener.refused})
            return 0
        finally:
            stop.set()


def reach_store(options: argparse.Namespace, join_until: float) -> RendezvousReached:
    """The others' store, which node 0 holds itself where no launcher does; without one where it cannot be reached or held."""
    if options.node != 0 or options.store_is_there:
        return reach(options.master_addr, options.master_port, until=join_until)
    try:
        store = host_store(options.master_port)
    except RuntimeError as error:
        held = MasterProbe(addr=options.master_addr, port=options.master_port, outcome="held", detail=str(error)[:200])
        return RendezvousReached(probe=held)
    reached = reach(options.master_addr, options.master_port, until=time.monotonic() + OWN_STORE_SECONDS)
    return replace(reached, store=store)


def introduction(
    options: argparse.Namespace, here: Network, facts: Sequence[object], public: str, at: tuple[str, int]
) -> Introduction:
    """What this node says of itself to the others, which reach it `at` an address and port."""
    address, port = at
    interface = here.interface_of(address)
    return Introduction(
        node=options.node,
        nodes=options.nodes,
        pid=os.getpid(),
        host=here.hostname,
        address=address,
        port=port,
        public=public,
        speed_mbit=None if interface is None or interface.virtual else interface.speed_mbit,
        facts={type(fact).__name__: msgspec.to_builtins(fact) for fact in facts},
    )


def take_part(
    messages: Messages,
    options: argparse.Namespace,
    me: Introduction,
    keys: Keys,
    listener: Listener,
    *,
    at: str | None,
    until: float,
) -> bool:
    """Follow node 0 through the rounds and the groups, and leave; returns whether the rounds came to their end."""
    attendance.note(None, complete=True)
    over = False
    try:
        over = follow(messages, me, keys, until=until)
        members: tuple[int, ...] = messages.hear("groups", Members, until=until, while_alive=0) or ()
        try_groups(messages, options, members, at, until)
        if members:
            try_nccl(messages, me, until)
    except PeerError as error:
        sys.stderr.write(f"node 0 cannot be followed: {error}\n")
    messages.say(f"strangers/{options.node}", listener.refused)
    messages.count("left")
    return over


def show_life(messages: Messages, options: argparse.Namespace, address: str, stop: threading.Event) -> None:
    """Pulse until `stop` is set, with a connection of one's own, so that the node can wait in the store meanwhile.

    The shared one serves until that is open: a busy store takes its time. `address` is that of the store, for those that do not
    serve it.
    """
    at = address if options.node or options.store_is_there else "localhost"
    opened = threading.Event()
    threading.Thread(target=messages.pulse, args=(options.node, opened), daemon=True).start()
    own = another_connection(at, options.master_port)
    opened.set()
    (messages if own is None else replace(messages, store=own)).pulse(options.node, stop)


def report(
    messages: Messages,
    options: argparse.Namespace,
    me: Introduction,
    keys: Keys,
    *,
    at: str,
    join_until: float,
    until: float,
) -> int:
    """Node 0: lead the rounds and the groups, and say what came of them. Returns how many others will leave by themselves."""
    gathered = lead(messages, me, keys, expected=options.nodes, join_until=join_until, until=until)
    say("Links", asdict(gathered.links))
    say("RankSet", asdict(gathered.ranks))
    say("nodes", [asdict(node) for node in gathered.nodes])
    ready = not gathered.left_out and ready_for_groups(gathered.links, until)
    members = tuple(node.node for node in gathered.nodes) if ready else ()
    messages.say("groups", members)
    try_groups(messages, options, members, at, until)
    answers = GroupAnswers(messages, {})
    if members:
        grouped = answers.of(members, "grouped", tuple[GroupAnswer, ...], until=until)
        say("Groups", asdict(groups_of(members, grouped)))
    if members or options.nodes == 1:
        try_nccl(messages, me, until)
        tried = answers.of([node.node for node in gathered.nodes], "nccl", NcclAnswer, until=until)
        say("NcclTries", asdict(tries_of(tried)))
    called = {node.node: node.called for node in gathered.nodes}
    say("left_out", [*gathered.left_out, *(f"{called[node]}: {why}" for node, why in sorted(answers.wrong.items()))])
    return len(gathered.nodes) - len(gathered.links.lost) - 1


def ready_for_groups(links: Links, until: float) -> bool:
    """Whether all nodes are there, every direction that was tried works, and time is left: else groups only fail for that."""
    works = all(link.outcome == "ok" for link in links.links) and not links.lost and not links.missing
    return works and links.complete and len(links.nodes) > 1 and time.monotonic() + GROUPS_LEAST_SECONDS < until


def try_groups(
    messages: Messages, options: argparse.Namespace, members: tuple[int, ...], address: str | None, until: float
) -> None:
    """Run this node's part in the groups in a process of its own, and leave what it said for node 0.

    `address` is where this node has reached the store; that process does not look up the master's name again.
    """
    if options.node not in members:
        return
    addr = (address or options.master_addr) if options.node or options.store_is_there else "localhost"
    command = [
        sys.executable, str(our_file("probes", "net_groups.py")), "--node", str(options.node),
        "--addr", addr, "--port", str(options.master_port), "--prefix", f"{messages.prefix}/group",
        "--members", *map(str, members),
    ]  # fmt: skip
    ended = run(command, deadline_seconds=max(1.0, until - time.monotonic() - LEAVE_SECONDS))
    messages.say(
        f"grouped/{options.node}", [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    )


def try_nccl(messages: Messages, me: Introduction, until: float) -> None:
    """Sum over this node's GPUs with each transport of NCCL, and leave what came of it for node 0."""
    gpus, nothing_to_try = gpus_for_nccl()
    tries = [] if nothing_to_try else list(try_transports(me.node, gpus, until=until - LEAVE_SECONDS))
    skipped = "" if tries else nothing_to_try or "no time was left: give it a longer --deadline"
    messages.say(f"nccl/{me.node}", {"host": me.host, "skipped": skipped, "tries": [asdict(each) for each in tries]})


def own_address(here: Network, master: Master | None, master_addr: str) -> str:
    """The address that gloo would give to its peers; where that is loopback, the one that packets to the master bear."""
    chosen = gloo_choice(os.environ.get(GLOO, ""), here).found
    candidates = [address.partition("/")[0] for interface in chosen for address in interface.addresses]
    candidates += here.hostname_addresses[:1]
    candidates = [address for address in candidates if not address.startswith("127.") and address != "::1"]
    own = [address for address in candidates if here.interface_of(address) is not None]
    if own:
        return own[0]
    if master is not None and master.source is not None:
        return master.source
    return str(socket.getaddrinfo(master_addr, None)[0][4][0])


def say(kind: str, value: Any) -> None:  # noqa: ANN401 - anything JSON can hold
    """One line for the process that asked."""
    print(json.dumps({kind: value}), flush=True)


def say_probe(probe: MasterProbe) -> None:
    """How far this node came to the master."""
    say("MasterProbe", asdict(probe))


def _end_at(seconds: float) -> None:
    """End this process then, whatever it waits for: a store whose link broke may never answer."""
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()


def _wait_until_others_left(messages: Messages, others: int) -> None:
    """The store lives in this process: it stays until everybody has heard that it is over."""
    end = time.monotonic() + LEAVE_SECONDS
    while messages.store.add(f"{messages.prefix}/left", 0) < others and time.monotonic() < end:
        time.sleep(0.02)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--master-addr", required=True)
    parser.add_argument("--master-port", type=int, required=True)
    parser.add_argument("--store-is-there", action="store_true", help="torchrun's agent holds the store already")
    parser.add_argument("--run", default="0")
    parser.add_argument("--deadline", type=float, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a thread that waits for a stranger must not keep this process

"""Run one node's part of `ddpdoctor net` in a process of its own, under a deadline."""

from __future__ import annotations

import json
import socket
import sys
from dataclasses import dataclass
from typing import Any

import msgspec

from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence, Missing, RankFacts, kinds
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.launch.program import Ended, run
from ddpdoctor.launch.ranks import our_file

DEFAULT_PORT = 29500
GRACE_SECONDS = 5.0  # for torch's import and for leaving


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """This process's node in the job, and where the job's rendezvous is. `works` is False on a second rank of a node."""

    node: int
    nodes: int
    master_addr: str
    master_port: int
    store_is_there: bool
    run: str
    works: bool = True


def place_of(launch: Launch) -> Place:
    """The node that a launched process stands for: one rank of each node works, the others have nothing to do.

    Raises:
        UsageError: the launcher does not say where the master is.
    """
    if not launch.master_addr:
        raise UsageError(
            f"{launch.launcher} started rank {launch.rank} of {launch.world_size}, and MASTER_ADDR is not set",
            hint="export MASTER_ADDR (the name of rank 0's node) and MASTER_PORT, or give --master-addr and --master-port",
        )
    local = launch.local_world_size or 1
    agents = launch.agents if launch.launcher == "torchrun" else None
    return Place(
        node=launch.node_rank if agents and launch.node_rank is not None else launch.rank // local,
        nodes=agents or -(-launch.world_size // local),
        master_addr=launch.master_addr,
        master_port=launch.master_port or DEFAULT_PORT,
        store_is_there=launch.launcher == "torchrun",
        run=launch.run_id or "0",
        works=launch.local_rank in {None, 0} if local > 1 else True,
    )


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


def run_node(place: Place, *, deadline_seconds: float) -> Evidence:
    """What this node found; on node 0 what all nodes found, each with its own facts."""
    command = [
        sys.executable, str(our_file("probes", "net_node.py")),
        "--node", str(place.node), "--nodes", str(place.nodes),
        "--master-addr", place.master_addr, "--master-port", str(place.master_port),
        "--run", place.run, "--deadline", str(deadline_seconds),
        *(["--store-is-there"] if place.store_is_there else []),
    ]  # fmt: skip
    env = {"MASTER_ADDR": place.master_addr, "MASTER_PORT": str(place.master_port)}
    ended = run(command, deadline_seconds=deadline_seconds + GRACE_SECONDS, env=env)
    said: dict[str, Any] = {}
    for line in ended.stdout.splitlines():
        if line.startswith("{"):
            said.update(json.loads(line))
    return _evidence(place, said, ended)


def _evidence(place: Place, said: dict[str, Any], ended: Ended) -> Evidence:
    known = kinds()
    own = {name: value for name, value in said.items() if name in known and name != "Links"}
    by_node = {node["node"]: (node["host"], node["facts"]) for node in said.get("nodes", ())}
    host, facts = by_node.get(place.node, (own.get("Network", {}).get("hostname", "this host"), {}))
    by_node[place.node] = (host, {**facts, **own})
    ranks = tuple(
        RankFacts(
            rank=node,
            host=host,
            facts=tuple(msgspec.convert(value, known[name], str_keys=True) for name, value in facts.items()),
        )
        for node, (host, facts) in sorted(by_node.items())
    )
    job: tuple[Any, ...] = (msgspec.convert(said["Links"], known["Links"]),) if "Links" in said else ()
    undecided: tuple[str, ...] = ()
    if not job and place.node == 0 and said.get("MasterProbe", {}).get("outcome") == "joined":
        why = "the deadline passed" if ended.timed_out else f"its process ended with code {ended.code}"
        undecided = (f"the links could not be measured: {why}; {_last_words(ended)}",)
    missing = () if job else (Missing(kind="Links", reason="only node 0 of a job that met gathers them"),)
    return Evidence(job=job, ranks=ranks, undecided=undecided, missing=missing, launched=place.nodes > 1)


def _last_words(ended: Ended) -> str:
    return next((line.strip() for line in reversed(ended.stderr.splitlines()) if line.strip()), "it said nothing")

"""`ddpdoctor net` finds the name, port, interface, node or link of a job that is broken."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.options import Format, ReportOptions, reports
from ddpdoctor.cli.shared_exit_code import ends_alike

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddpdoctor.analysis.network.network_layers import Layer
    from ddpdoctor.evidence.links import Links
    from ddpdoctor.evidence.nccl import NcclTries
    from ddpdoctor.launch.net_process import NodePlace
    from ddpdoctor.model import Measure

ALONE = "only this host was tested, and no link: run it on every node as the job would be run, such as `srun -N 4 ddpdoctor net`"
MOST_NODES = 1 << 16  # beyond any job; no list is made of a larger number

NodesOption = Annotated[
    Optional[int],  # noqa: UP045 - a default of None on Python 3.10
    typer.Option("--nnodes", min=1, max=MOST_NODES, help="Without a launcher: number of nodes that run this."),
]
NodeRankOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--node-rank", min=0, max=MOST_NODES, help="Without a launcher: the number of this node, from 0."),
]
AddrOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--master-addr", metavar="HOST", help="Name or address of node 0. [default: MASTER_ADDR]"),
]
PortOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--master-port", min=1, max=65535, help="Port of the rendezvous. [default: MASTER_PORT, else 29500]"),
]
NodesOutOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--nodes-out", metavar="FILE", help="Write `good: ...` and `bad: ...` in the format of srun --exclude."
    ),
]


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("net", short_help="Find the broken name, port, interface, node or link.")(net)


@reports
@ends_alike
def net(
    nnodes: NodesOption = None,
    node_rank: NodeRankOption = None,
    master_addr: AddrOption = None,
    master_port: PortOption = None,
    deadline: Annotated[
        float, typer.Option("--deadline", metavar="SECONDS", min=5, help="Time limit, even without a verdict.")
    ] = 60,
    nodes_out: NodesOutOption = None,
    *,
    options: ReportOptions,
) -> None:
    """Find the broken name, port, interface, node or link: run it on every node as the job would be run."""
    from ddpdoctor.analysis.network.network_layers import layers, nccl_layers
    from ddpdoctor.atomic_file import write_atomically
    from ddpdoctor.cli.progress import progress
    from ddpdoctor.cli.report_output import conclude
    from ddpdoctor.cli.waits import Waits
    from ddpdoctor.evidence.links import Groups, Links, MasterProbe
    from ddpdoctor.evidence.nccl import NcclTries
    from ddpdoctor.launch.net_process import JOIN_SHARE, run_node
    from ddpdoctor.render.link_matrix import heat_map, nodes_file
    from ddpdoctor.render.network_layers import table

    place = _place(nnodes, node_rank, master_addr, master_port)
    if not place.works:
        raise typer.Exit(0)
    with progress(_stage(place, deadline), shown=place.speaks) as display:
        evidence = run_node(place, deadline_seconds=deadline, on_wait=Waits(display, JOIN_SHARE * deadline).note)
    if place.nodes == 1:
        evidence = replace(evidence, notes=(*evidence.notes, ALONE))
    links = evidence.one(Links)
    probes = [entry.value for entry in evidence.per_rank(MasterProbe) or ()]
    nccl = evidence.one(NcclTries)
    if place.nodes > 1:
        found = layers(probes, links, evidence.one(Groups), nccl)
    else:
        found = tuple(nccl_layers(nccl)) if nccl is not None and nccl.tries else ()
    if place.node > 0 and not evidence.undecided and all(probe.outcome == "joined" for probe in probes):
        raise typer.Exit(0)  # node 0 reports for all
    if found and options.format is Format.TEXT:
        output.show(f"{table(found)}\n")
    if links is not None and len(links.nodes) > 1 and options.format is Format.TEXT:
        output.show(f"{heat_map(links)}\n")
    files = (
        [partial(write_atomically, nodes_out, nodes_file(links))] if nodes_out is not None and links is not None else []
    )
    conclude(evidence, options, measured=_measured(found, links, nccl), afterwards=files)


def _stage(place: NodePlace, deadline: float) -> str:
    if place.nodes == 1:
        return f"testing this host (at most {deadline:.0f} s)"
    where = f"{place.master_addr}:{place.master_port}"
    return f"node {place.node} of {place.nodes}: meeting the others at {where} and measuring links (at most {deadline:.0f} s)"


def _measured(found: Sequence[Layer], links: Links | None, nccl: NcclTries | None) -> dict[str, Measure]:
    from ddpdoctor.render import link_matrix, network_layers

    return {
        **({"layers": network_layers.measured(found)} if found else {}),
        **({"nccl": [asdict(each) for each in nccl.tries]} if nccl is not None and nccl.tries else {}),
        **({"links": link_matrix.measured(links)} if links is not None else {}),
    }


def _place(nnodes: int | None, node_rank: int | None, master_addr: str | None, master_port: int | None) -> NodePlace:
    from ddpdoctor.errors import UsageError
    from ddpdoctor.launch.net_process import NodePlace, free_port, place_of
    from ddpdoctor.launch.ranks import current_launch, require_rank_in_world
    from ddpdoctor.launch.rendezvous import master_port_of

    launch = current_launch()
    if nnodes is None and node_rank is None and launch is not None:
        require_rank_in_world(launch)
        place = place_of(os.environ, replace(launch, master_addr=master_addr or launch.master_addr))
        return replace(place, master_port=master_port or place.master_port)
    addr = master_addr or os.environ.get("MASTER_ADDR")
    by_hand = {"--nnodes": nnodes, "--node-rank": node_rank, "--master-addr": master_addr}
    if all(value is None for value in by_hand.values()):
        return NodePlace(
            node=0,
            nodes=1,
            master_addr="localhost",
            master_port=master_port or free_port(),
            store_is_there=False,
            run="0",
        )
    if nnodes is None or node_rank is None or not addr:
        absent = [name for name, value in {**by_hand, "--master-addr": addr}.items() if value in {None, ""}]
        raise UsageError(
            f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} missing: "
            "--nnodes, --node-rank and --master-addr belong together",
            hint="on node 1 of 4: `ddpdoctor net --nnodes 4 --node-rank 1 --master-addr NODE0`",
        )
    if node_rank >= nnodes:
        raise UsageError(f"--node-rank {node_rank} is not below --nnodes {nnodes}", hint="nodes count from 0")
    port = master_port or master_port_of(os.environ)
    return NodePlace(
        node=node_rank, nodes=nnodes, master_addr=addr, master_port=port, store_is_there=False, run="0", by_hand=True
    )

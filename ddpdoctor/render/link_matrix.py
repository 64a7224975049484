"""The links of a job as a picture in letters, and as lists of nodes for a launcher."""

from __future__ import annotations

from dataclasses import asdict

from ddpdoctor.analysis.network.link_speeds import is_slow, median_speed
from ddpdoctor.analysis.network.suspects import accused_nodes
from ddpdoctor.evidence.links import Links
from ddpdoctor.model import Measure
from ddpdoctor.quoting import quoted

LARGEST_MATRIX = 32  # columns of a terminal; the JSON has all of it
LETTERS = {
    "refused": "R", "filtered": "F", "unreachable": "U", "reset": "X", "foreign": "?", "small-stalls": "E", "large-stalls": "L",
}  # fmt: skip


def heat_map(links: Links) -> str:
    """One row per source node, one column per target node: Gbit/s, or a letter for what failed."""
    numbers = [node.node for node in links.nodes]
    if len(numbers) > LARGEST_MATRIX:
        failed = sum(link.outcome != "ok" for link in links.links)
        return f"{len(numbers)} nodes, {len(links.links)} directions tried in {links.rounds} rounds, {failed} failed"
    usual = median_speed(links.links)
    cells = {}
    for link in links.links:
        speed = link.bytes_per_second
        mark = "*" if usual is not None and is_slow(link, usual) else ""
        cells[link.source, link.target] = LETTERS.get(link.outcome, f"{(speed or 0) * 8e-9:.2f}{mark}")
    width = max([5, *map(len, cells.values())]) + 1
    names = {number: quoted(f"{number} {links.name(number)}") for number in numbers}
    side = max(len(name) for name in names.values()) + 1
    lines = [" " * side + "".join(f"{number:>{width}}" for number in numbers) + "   to"]
    for row in numbers:
        shown = ("-" if row == column else cells.get((row, column), ".") for column in numbers)
        lines.append(f"{names[row]:<{side}}" + "".join(f"{cell:>{width}}" for cell in shown))
    failures = [f"{letter} {outcome}" for outcome, letter in LETTERS.items() if letter in cells.values()]
    slow = ["* slow"] if any(cell.endswith("*") for cell in cells.values()) else []
    lines.append("; ".join(["Gbit/s of one stream", *failures, *slow]))
    return "\n".join(lines)


def measured(links: Links) -> dict[str, Measure]:
    """Every node and direction, for machines."""
    return {
        "expected": links.expected,
        "missing": links.missing,
        "lost": links.lost,
        "rounds": links.rounds,
        "seconds": round(links.seconds, 3),
        "nodes": [asdict(node) for node in links.nodes],
        "directions": [asdict(link) for link in links.links],
    }


def nodes_file(links: Links) -> str:
    """`good: a,b` and `bad: c`, each list as `srun --exclude` and `--nodelist` take it."""
    bad = accused_nodes(links)
    good = [quoted(links.name(node.node)) for node in links.nodes if node.node not in bad]
    return f"good: {','.join(good)}\nbad: {','.join(quoted(links.name(number)) for number in sorted(bad))}\n"

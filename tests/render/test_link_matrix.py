"""The matrix of links as people, machines and launchers read it."""

from __future__ import annotations

from ddpdoctor.render.link_matrix import heat_map, measured, nodes_file
from tests.checks.matrices import HEALTHY_BYTES_PER_SECOND, matrix


def test_the_heat_map_shows_speed_what_is_slow_and_what_failed() -> None:
    links = matrix(
        3,
        lambda a, b: "filtered" if (a, b) == (1, 2) else "ok",
        lambda a, b: HEALTHY_BYTES_PER_SECOND / (10 if (a, b) == (0, 1) else 1),
    )
    assert heat_map(links).splitlines() == [
        "              0     1     2   to",
        "0 host-0      - 1.00* 10.00",
        "1 host-1  10.00     -     F",
        "2 host-2  10.00 10.00     -",
        "Gbit/s of one stream; F filtered; * slow",
    ]


def test_machines_get_every_direction() -> None:
    said = measured(matrix(3, lambda a, b: "refused" if b == 2 else "ok", expected=4))
    assert (said["expected"], said["missing"]) == (4, (3,))
    assert [node["host"] for node in said["nodes"]] == ["host-0", "host-1", "host-2"]
    assert {(each["source"], each["target"]): each["outcome"] for each in said["directions"]} == {
        (0, 1): "ok", (1, 0): "ok", (2, 0): "ok", (2, 1): "ok", (0, 2): "refused", (1, 2): "refused",
    }  # fmt: skip


def test_launchers_get_the_nodes_to_take_and_to_leave() -> None:
    dead = matrix(5, lambda a, b: "filtered" if 2 in (a, b) else "ok", lost=(4,))
    assert nodes_file(dead) == "good: host-0,host-1,host-3\nbad: host-2,host-4\n"
    late = matrix(4, latency=lambda a, b: 5e-3 if 1 in (a, b) else 50e-6)
    assert nodes_file(late) == "good: host-0,host-2,host-3\nbad: host-1\n"

"""The first layer that fails is told from those above it, which were skipped for that."""

from __future__ import annotations

from ddpdoctor.analysis.network.network_layers import layers, nccl_layers
from ddpdoctor.evidence.links import Groups, NetGroup
from ddpdoctor.evidence.nccl import NcclTries, NcclTry
from ddpdoctor.render.network_layers import measured, table
from tests.checks.matrices import matrix, probe

PAIRS = ((0, 1), (1, 2), (0, 2))


def verdicts(*arguments) -> dict[str, str]:
    return {layer.name: layer.verdict for layer in layers(*arguments)}


def test_a_healthy_job_passes_every_layer_but_the_one_that_needs_gpus() -> None:
    groups = Groups(nodes=(0, 1, 2), groups=tuple(NetGroup(nodes=nodes) for nodes in (*PAIRS, (0, 1, 2))))
    said = verdicts([probe()], matrix(3), groups, NcclTries(skipped={"node0": "no GPU"}))
    assert {said.pop(f"NCCL over {transport}") for transport in ("P2P", "SHM", "NET")} == {"skipped"}
    assert set(said.values()) == {"ok"}


def test_two_nodes_are_one_group_and_no_neighbours() -> None:
    said = verdicts([probe()], matrix(2), Groups(nodes=(0, 1), groups=(NetGroup(nodes=(0, 1)),)), None)
    assert (said["gloo, two neighbours"], said["gloo, all nodes"]) == ("skipped", "ok")


def test_what_is_above_the_first_failure_is_skipped_for_it() -> None:
    found = layers([probe("refused")], None, None, None)
    assert [layer.name for layer in found if layer.verdict == "failed"] == ["MASTER_PORT"]
    assert {layer.skipped for layer in found[2:]} == {"MASTER_PORT failed"}


def test_a_stream_that_stalls_is_told_from_a_connection_that_fails() -> None:
    links = matrix(3, lambda a, b: {(0, 1): "large-stalls", (1, 2): "filtered"}.get((a, b), "ok"))
    said = {layer.name: (layer.verdict, layer.failed, layer.tried) for layer in layers([probe()], links, None, None)}
    assert said["connections between nodes"] == ("failed", 1, 6)
    assert said["64 bytes there and back"] == ("ok", 0, 5)
    assert said["64 KiB and a stream"] == ("failed", 1, 5)
    assert said["gloo, all nodes"] == ("skipped", 0, 0)


def test_people_read_lines_and_machines_the_same() -> None:
    found = layers([probe()], matrix(3, expected=4), None, None)
    lines = table(found).splitlines()
    assert lines[3] == "all nodes there            failed   1 of 4"
    assert lines[-4] == "gloo, all nodes            skipped  all nodes there failed"
    assert measured(found)[3] == {
        "name": "all nodes there",
        "tried": 4,
        "failed": 1,
        "skipped": "",
        "verdict": "failed",
    }


def test_a_transport_that_the_gpus_do_not_have_was_not_tried() -> None:
    tries = NcclTries(
        tries=(
            NcclTry(node=0, host="a", gpus=2, transport="P2P", outcome="not-taken", detail="NCCL took NET"),
            NcclTry(node=0, host="a", gpus=2, transport="SHM", outcome="hung"),
            NcclTry(node=0, host="a", gpus=2, transport="NET", outcome="ok"),
        )
    )
    found = [(layer.verdict, layer.skipped) for layer in nccl_layers(tries)]
    assert found == [("skipped", "NCCL took NET"), ("failed", ""), ("ok", "")]

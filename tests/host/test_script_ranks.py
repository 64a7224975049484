"""Ranks that one process started as further runs of its script, without a launcher."""

from ddpdoctor.host.script_ranks import ScriptJob, script_jobs

MEETING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "3"}


def started(local_rank: int, node_rank: int = 0) -> dict[str, str]:
    """The variables of a process that Lightning starts: there is no RANK among them."""
    return {**MEETING, "NODE_RANK": str(node_rank), "LOCAL_RANK": str(local_rank)}


def test_the_process_that_started_the_others_is_their_first_rank() -> None:
    """It has set its own variables too late to be seen; a loader's worker of another rank has those of that rank."""
    environs = {10: {"HOME": "/root"}, 20: {}, 21: started(1), 22: started(2), 30: started(1)}
    parents = {10: 1, 20: 10, 21: 20, 22: 20, 30: 21}

    assert [*script_jobs(environs, parents)] == [ScriptJob(parent=20, ranks={0: 20, 1: 21, 2: 22}, world_size=3)]


def test_on_a_later_node_ranks_are_counted_from_those_of_the_nodes_before_it() -> None:
    """Each node has as many ranks."""
    (job,) = script_jobs({20: {}, 21: {**started(1, node_rank=2), "WORLD_SIZE": "6"}}, {20: 1, 21: 20})

    assert (job.ranks, job.world_size) == ({4: 20, 5: 21}, 6)


def test_a_launcher_that_starts_every_rank_is_none_of_them() -> None:
    """Ranks that a launcher numbers, and a program that starts local rank 0 as well."""
    numbered = {pid: {**started(pid - 20), "RANK": str(pid - 20)} for pid in (21, 22)}

    assert [*script_jobs({20: {}, **numbered}, {20: 1, 21: 20, 22: 20})] == []
    assert [*script_jobs({20: {}, 21: started(0), 22: started(1)}, {20: 1, 21: 20, 22: 20})] == []
    assert [*script_jobs({21: started(1)}, {21: 1})] == []


def test_a_rank_of_5000_digits_is_no_rank() -> None:
    assert [*script_jobs({20: {}, 21: {**started(1), "LOCAL_RANK": "9" * 5000}}, {20: 1, 21: 20})] == []

"""Environments as launchers on Kubernetes make them, read by the one parser."""

from __future__ import annotations

from ddpdoctor.evidence.launch import Launch

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_PORT": "tcp://10.96.0.1:443", "HOSTNAME": "llm-1-x7k2p"}
INDEXED_JOB = {**POD, "JOB_COMPLETION_INDEX": "1", "MASTER_ADDR": "llm-0.llm", "MASTER_PORT": "29500"}
TORCHRUN_IN_INDEXED_JOB = {
    **INDEXED_JOB,
    "LOCAL_RANK": "3",
    "RANK": "11",
    "GROUP_RANK": "1",
    "ROLE_RANK": "11",
    "ROLE_NAME": "default",
    "LOCAL_WORLD_SIZE": "8",
    "WORLD_SIZE": "16",
    "GROUP_WORLD_SIZE": "2",
    "ROLE_WORLD_SIZE": "16",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
PYTORCHJOB = {
    **POD,
    "HOSTNAME": "llm-worker-0",
    "PYTHONUNBUFFERED": "1",
    "MASTER_ADDR": "llm-master-0",
    "MASTER_PORT": "23456",
    "RANK": "1",
    "WORLD_SIZE": "2",
    "PET_MASTER_ADDR": "llm-master-0",
    "PET_MASTER_PORT": "23456",
    "PET_NODE_RANK": "1",
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "auto",
}


def test_the_pod_of_an_indexed_job_is_no_rank_until_torchrun_makes_some() -> None:
    assert Launch.from_environ(INDEXED_JOB) is None


def test_torchrun_in_an_indexed_job_says_who_is_who() -> None:
    launch = Launch.from_environ(TORCHRUN_IN_INDEXED_JOB)
    assert launch is not None
    assert (launch.launcher, launch.rank, launch.world_size, launch.agents) == ("torchrun", 11, 16, 2)
    assert (launch.local_rank, launch.local_world_size, launch.node_rank) == (3, 8, 1)
    assert (launch.master_addr, launch.master_port) == ("llm-0.llm", 29500)


def test_a_pytorchjob_without_torchrun_gives_each_pod_its_rank() -> None:
    launch = Launch.from_environ(PYTORCHJOB)
    assert launch is not None
    assert (launch.launcher, launch.rank, launch.world_size) == ("torch", 1, 2)
    assert (launch.master_addr, launch.master_port, launch.tasks) == ("llm-master-0", 23456, None)


def test_open_mpi_says_on_no_rank_which_node_it_is_on() -> None:
    """Its OMPI_COMM_WORLD_NODE_RANK is the number of the process among those on the node."""
    names = {"RANK": "5", "SIZE": "8", "LOCAL_RANK": "1", "LOCAL_SIZE": "4", "NODE_RANK": "1"}
    launch = Launch.from_environ({f"OMPI_COMM_WORLD_{name}": value for name, value in names.items()})
    assert launch is not None
    assert (launch.rank, launch.world_size, launch.local_rank, launch.local_world_size) == (5, 8, 1, 4)
    assert launch.node_rank is None

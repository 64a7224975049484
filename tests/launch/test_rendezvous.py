"""Where ranks meet when the launcher names no address."""

from __future__ import annotations

import pytest

from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.launch.rendezvous import first_node, meeting_point, rank_variables


def meets(**environ: str):
    launch = Launch.from_environ(environ)
    assert launch is not None
    return meeting_point(environ, launch)


@pytest.mark.parametrize(
    ("nodelist", "first"),
    [
        ("gpu7", "gpu7"),
        ("a,b", "a"),
        ("gpu[01-04,07]", "gpu01"),
        ("gpu[3,9]", "gpu3"),
        ("rack2-n[010-012]-ib,x1", "rack2-n010-ib"),
    ],
)
def test_the_first_node_of_slurms_notation(nodelist: str, first: str) -> None:
    assert first_node(nodelist) == first


def test_torchruns_address_is_taken_and_its_agent_hosts_the_store() -> None:
    point = meets(
        RANK="1",
        WORLD_SIZE="2",
        MASTER_ADDR="10.0.0.5",
        MASTER_PORT="29400",
        TORCHELASTIC_RUN_ID="x",
        TORCHELASTIC_USE_AGENT_STORE="True",
    )
    assert (point.host, point.port, point.hosted) == ("10.0.0.5", 29400, True)


def test_every_task_of_a_slurm_step_derives_the_same_port_and_another_step_another() -> None:
    step = {"SLURM_NTASKS": "2", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_JOB_NODELIST": "n[1-2]"}
    one, other = meets(SLURM_PROCID="0", **step), meets(SLURM_PROCID="1", **step)
    assert one == other
    assert one.host == "n1"
    assert 20000 <= one.port < 30000
    assert meets(SLURM_PROCID="0", **{**step, "SLURM_STEP_ID": "1"}).port != one.port


def test_open_mpi_on_one_host_meets_there_and_on_several_must_be_told() -> None:
    local = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    assert meets(**local).host == "127.0.0.1"
    with pytest.raises(UndecidedError) as error:
        meets(**{**local, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"})
    assert "Open MPI does not say which host rank 0 of 2 is on" in error.value.message
    assert "mpirun -x MASTER_ADDR=HOST" in error.value.hint


def test_a_rank_gets_the_variables_that_its_launcher_did_not_set() -> None:
    """`init_process_group` reads these five, whoever started the rank."""
    slurm = {
        "SLURM_PROCID": "3",
        "SLURM_NTASKS": "4",
        "SLURM_LOCALID": "1",
        "SLURM_STEP_NODELIST": "localhost,gpu[02-04]",
    }
    launch = Launch.from_environ(slurm)
    assert launch is not None
    added = rank_variables(slurm, launch)
    assert added == {
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": added["MASTER_PORT"],
    }  # fmt: skip
    assert rank_variables({**slurm, **added}, launch) == {}

"""ddpdoctor under a real Slurm: as the tasks of srun, under torchrun inside srun, in a batch job, and made wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.launch import Launch
from tests.checks import ranks
from tests.clusters.conftest import Slurm, own_address

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(600)]
TORCHRUN = 'torchrun --nnodes "$SLURM_NNODES" --node-rank "$SLURM_NODEID" --nproc-per-node 2 --master-addr 127.0.0.1 '
KEEP = "json.dump(dict(os.environ), open(os.path.join(os.environ['SEEN'], f'{os.getpid()}.json'), 'w'))"


def launches(slurm: Slurm, folder: Path, *options: str, command: str, first: str = "pass") -> list[Launch]:
    """What each rank knows of its launch that `srun OPTIONS COMMAND` starts; it runs `first` before, and imports no torch."""
    program = folder / "rank.py"
    program.write_text(f"import json, os\n{first}\n{KEEP}\n")
    job = f"{command} --no-python {sys.executable} -S {program}"
    ended = slurm.run("srun", *options, "bash", "-c", job, SEEN=str(folder))
    found = [Launch.from_environ(json.loads(file.read_text())) for file in folder.glob("*.json")]
    assert found, ended.stderr
    return [launch for launch in found if launch is not None]


def said_of(started: list[Launch]) -> dict[str, str]:
    """What the rules about launches say of these ranks, each by itself: by code."""
    reports = [diagnose(ranks(launch), select=["DDP217", "DDP218"]) for launch in started]
    return {finding.code: finding.message for report in reports for finding in report.findings}


def test_env_gathers_the_tasks_of_srun_though_their_names_do_not_resolve(slurm: Slurm) -> None:
    ended = slurm.run("srun", "-N4", "ddpdoctor", "env", "--format", "json", "--select", "DDP2")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    ran = {outcome["code"] for outcome in report["outcomes"] if outcome["outcome"] == "ran"}
    assert {"DDP205", "DDP206", "DDP207", "DDP217", "DDP218"} <= ran
    assert {finding["severity"] for finding in report["findings"]} <= {"info"}


def test_the_benchmark_joins_the_tasks_of_srun(slurm: Slurm) -> None:
    ended = slurm.run("srun", "-N4", "ddpdoctor", "allreduce-bench", "--sizes", "1K", "--iters", "5")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("all_reduce over gloo, 4 ranks") == 1
    assert "5 counts compared on fresh buffers, 3 of them odd, 0 included: 0 wrong" in ended.stdout


def test_net_talks_between_the_tasks_of_srun(slurm: Slurm) -> None:
    ended = slurm.run("srun", "-N4", "ddpdoctor", "net", "--format", "json", "--select", "DDP2")
    assert ended.returncode == 0, ended.stderr + ended.stdout
    report = json.loads(ended.stdout)
    assert len(report["measured"]["links"]["directions"]) == 12
    verdicts = {layer["name"]: layer["verdict"] for layer in report["measured"]["layers"]}
    assert verdicts["gloo, all nodes"] == "ok"


def test_training_joins_the_tasks_of_srun(slurm: Slurm) -> None:
    ended = slurm.run("srun", "-N2", "ddpdoctor", "train", "--max-steps", "5", "--format", "json", "--select", "DDP524")
    assert ended.returncode == 0, ended.stderr
    training = json.loads(ended.stdout)["measured"]["training"]
    assert (training["world_size"], len(set(training["weights"]))) == (2, 1)


def test_replicas_are_compared_over_the_tasks_of_srun(slurm: Slurm) -> None:
    ended = slurm.run("srun", "-N2", "ddpdoctor", "verify-sync")
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert "no findings" in ended.stdout


def test_torchrun_inside_srun_is_one_job(slurm: Slurm, tmp_path: Path) -> None:
    started = launches(slurm, tmp_path, "-N2", "--ntasks-per-node=1", command=f"{TORCHRUN} --master-port 29517")
    assert sorted(launch.rank for launch in started) == [0, 1, 2, 3]
    assert not said_of(started)


def test_a_torchrun_per_task_that_counts_nodes_is_named(slurm: Slurm, tmp_path: Path) -> None:
    """Two tasks a node, and each starts a torchrun as if it were the node's only one."""
    started = launches(slurm, tmp_path, "-N2", "--ntasks-per-node=2", command=f"{TORCHRUN} --master-port 29518")
    assert "srun started 4 processes, each of them a torchrun that expects 2 nodes" in said_of(started)["DDP217"]


def test_standalone_in_every_task_is_named_as_independent_jobs(slurm: Slurm, tmp_path: Path) -> None:
    started = launches(slurm, tmp_path, "-N2", command="torchrun --standalone --nproc-per-node 2")
    assert "2 independent jobs" in said_of(started)["DDP218"]


def test_procid_as_rank_inside_torchrun_is_named(slurm: Slurm, tmp_path: Path) -> None:
    wrong = "os.environ.update(RANK=os.environ['SLURM_PROCID'], WORLD_SIZE=os.environ['SLURM_NTASKS'])"
    started = launches(slurm, tmp_path, "-N2", command=f"{TORCHRUN} --master-port 29519", first=wrong)
    assert "the values of Slurm" in said_of(started)["DDP217"]


@pytest.mark.skipif(own_address() == "127.0.0.1", reason="this machine has no address beside loopback (DDP222)")
def test_the_script_that_init_writes_trains_in_a_batch_job(slurm: Slurm, tmp_path: Path) -> None:
    train = ROOT / "reference_train" / "train.py"
    options = ["--nodes", "2", "--nproc-per-node", "1", "--cpus", "2", "--cpu"]
    script = tmp_path / "launch.sh"
    job = slurm.run(
        "ddpdoctor",
        "init",
        "slurm",
        *options,
        "-o",
        str(script),
        "--",
        str(train),
        *("--epochs", "1"),
        *("--batch-size", "500"),
    )
    assert job.returncode == 0, job.stderr
    ended = slurm.run("sbatch", "--wait", f"--output={tmp_path}/out", str(script), seconds=550, cwd=tmp_path)
    out = (tmp_path / "out").read_text()
    assert ended.returncode == 0, out
    assert "checks ran" in out  # the preflight
    assert "accuracy" in out
    assert [*tmp_path.glob("ddpdoctor-*")]  # the case, in the directory of `sbatch`

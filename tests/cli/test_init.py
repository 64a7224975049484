"""`ddpdoctor init` writes scripts that bash reads, with the values asked for, and refuses what cannot be."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ddpdoctor import cli
from ddpdoctor.templates.launch_scripts import CHOOSE_INTERFACE
from tests.waiting import PROGRAM_SECONDS


def written(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.run(["init", *arguments]) == 0
    return capfd.readouterr().out


@pytest.mark.parametrize("launcher", ["slurm", "torchrun"])
def test_bash_reads_the_script_whatever_the_command(launcher: str, capfd: pytest.CaptureFixture[str]) -> None:
    script = written(capfd, launcher, "--", "train.py", "--name", "it's a $HOME", '"')
    subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=30)


@pytest.mark.skipif(
    shutil.which("shellcheck") is None, reason="shellcheck is not installed: apt-get install shellcheck"
)
@pytest.mark.parametrize(
    "arguments",
    [
        ["slurm"],
        ["slurm", "--interface", "ib0", "--cpu"],
        ["slurm", "--container", "pyxis", "--image", "nvcr.io#team/train:1"],
        ["slurm-tasks", "--container", "apptainer", "--image", "train.sif"],
        ["slurm", "--container", "apptainer", "--image", "docker://team/train:1", "--cpu"],
        ["slurm-tasks"],
        ["torchrun"],
        ["torchrun", "--nodes", "1"],
    ],
    ids=" ".join,
)
def test_shellcheck_has_nothing_to_say(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    script = written(capfd, *arguments, "--", "train.py", "--name", "it's")
    said = subprocess.run(
        ["shellcheck", "-"], input=script, capture_output=True, text=True, check=False, timeout=PROGRAM_SECONDS
    )
    assert not said.stdout


@pytest.mark.parametrize(
    ("master", "route", "address", "chosen"),
    [
        ("10.1.0.1", "10.1.0.1 dev ib0 src 10.1.0.2 uid 0", "", "=ib0 ib0"),
        (
            "10.1.0.2",
            "local 10.1.0.2 dev lo src 10.1.0.2 uid 0",
            "3: ib0    inet 10.1.0.2/24 scope global ib0",
            "=ib0 ib0",
        ),
        ("127.0.1.1", "local 127.0.1.1 dev lo src 127.0.0.1 uid 0", "1: lo    inet 127.0.0.1/8 scope host lo", " "),
    ],
    ids=["another-node", "the-master-itself", "loopback"],
)
def test_the_interface_is_the_way_to_the_master(
    master: str, route: str, address: str, chosen: str, tmp_path: Path
) -> None:
    ip = tmp_path / "ip"
    ip.write_text(f"#!/bin/sh\ncase $2 in route) echo '{route}';; address) echo '{address}';; esac\n")
    ip.chmod(0o755)
    asks = 'set -euo pipefail; choose_interface; echo "${NCCL_SOCKET_IFNAME:-} ${GLOO_SOCKET_IFNAME:-}"'
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "MASTER_ADDR": master}
    said = subprocess.run(
        ["bash", "-c", f"{CHOOSE_INTERFACE}\n{asks}"], env=env, capture_output=True, text=True, check=True, timeout=30
    )
    assert said.stdout == f"{chosen}\n"


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (["slurm", "--", "python", "train.py", "--lr", "1"], "train.py --lr 1"),
        (["slurm-tasks", "--", "/opt/bin/python3.11", "-u", "-m", "pkg.train"], "-m pkg.train"),
        (["torchrun", "--", "torchrun", "--nproc-per-node", "4", "train.py"], "train.py"),
        (["slurm", "--", "python", "-m", "torch.distributed.run", "-m", "pkg.train"], "-m pkg.train"),
        (["k8s", "--image", "train:1", "--", "accelerate", "launch", "train.py"], "train.py"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else None,
)
def test_a_program_before_the_training_script_is_refused(
    command: list[str], script: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """As the training script torchrun would run `python`."""
    assert cli.run(["init", *command]) == 2
    assert f"give the training script and its options alone: `-- {script}`" in capfd.readouterr().err


def test_a_script_without_a_suffix_that_is_there_is_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").touch()
    assert written(capfd, "slurm", "--", "train").count(" train\n") == 1
    assert written(capfd, "slurm", "--", "-m", "train").count(" -m train\n") == 1


def test_one_node_needs_no_address_and_no_number(capfd: pytest.CaptureFixture[str]) -> None:
    script = written(capfd, "torchrun", "--nodes", "1", "--interface", "ib0")
    assert "torchrun --standalone --nproc-per-node 8 train.py\n" in script
    assert "MASTER_ADDR" not in script
    assert 'export GLOO_SOCKET_IFNAME="ib0"\n' in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=30)


def test_fewer_cpus_than_ranks_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["init", "slurm", "--cpus", "4"]) == 2
    assert "--cpus 4 is less than one CPU for each of the 8 ranks of a node" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["1", "4ever", "on", "null"])
def test_a_name_that_a_service_or_yaml_does_not_take_is_refused(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A Service's name begins with a letter; `name: on` is no text in YAML."""
    assert cli.run(["init", "k8s", "--image", "train:1", "--name", name]) == 2
    assert "is not a valid job name" in capfd.readouterr().err


def test_the_script_for_slurm_starts_one_watched_torchrun_a_node(capfd: pytest.CaptureFixture[str]) -> None:
    script = written(
        capfd, "slurm", "--nodes", "4", "--cpus", "96", "--interface", "ib0", "--", "train.py", "--lr", "1"
    )
    for line in (
        "#SBATCH --nodes=4",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --gpus-per-node=8",
        "#SBATCH --cpus-per-task=96",
        "export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK > 8 ? SLURM_CPUS_PER_TASK / 8 : 1))",
        'choose_interface() { export NCCL_SOCKET_IFNAME="=ib0" GLOO_SOCKET_IFNAME="ib0"; }',
    ):
        assert line in script.splitlines()
    assert "--stall-after 1800 --kill-on-hang --" in script
    assert '--master-port "$MASTER_PORT" train.py --lr 1\n' in script


@pytest.mark.parametrize("container", ["pyxis", "apptainer"])
@pytest.mark.parametrize("launcher", ["slurm", "slurm-tasks"])
def test_every_step_of_a_container_form_runs_inside_with_the_functions(
    launcher: str, container: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With programs in the place of Slurm's and of the container's that run what they are given, in an empty environment."""
    script = written(capfd, launcher, "--container", container, "--image", "train.sif", "--interface", "ib0")
    inside = 'while [ "$1" != bash ]; do shift; done; exec env -i PATH="$PATH" "$@"\n'
    programs = {
        "srun": f'#!/bin/bash\necho "srun $*" | head -n 1 >>srun.log\n{inside}',
        "scontrol": "#!/bin/sh\necho localhost\n",
        "ddpdoctor": '#!/bin/sh\necho "$NCCL_SOCKET_IFNAME ddpdoctor $1" >>ddpdoctor.log\n',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    variables = dict.fromkeys(("SLURM_JOB_ID", "SLURM_CPUS_PER_TASK", "SLURM_NNODES", "SLURM_NTASKS"), "1")
    variables |= {"SLURM_JOB_NODELIST": "localhost", "SLURM_SUBMIT_DIR": str(tmp_path)}
    # what a step needs of the batch script's environment it gets from the launcher; here by a preamble
    needed = {"CASE": "case", "MASTER_ADDR": "localhost", "MASTER_PORT": "1", "SLURM_NODEID": "0", "SLURM_NNODES": "1",
              "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}  # fmt: skip
    words = " ".join(f"{name}={value}" for name, value in needed.items())
    (tmp_path / "srun").write_text(programs["srun"].replace('PATH="$PATH"', f'PATH="$PATH" {words}'))
    ended = subprocess.run(
        ["bash"], input=script, cwd=tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **variables},
        capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "ddpdoctor.log").read_text() == "=ib0 ddpdoctor net\n=ib0 ddpdoctor watch\n"
    steps = (tmp_path / "srun.log").read_text()
    mounted = (
        f"--container-mounts={tmp_path}:{tmp_path}"
        if container == "pyxis"
        else f"apptainer exec --nv --bind {tmp_path}"
    )
    assert steps.count(mounted) == 2
    assert 'CASE="$SLURM_SUBMIT_DIR/ddpdoctor-$SLURM_JOB_ID${SLURM_RESTART_COUNT:+-$SLURM_RESTART_COUNT}"' in script
    assert "--stall-after 1800 --kill-on-hang --" in script


def test_without_gpus_none_are_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    assert "gpu" not in written(capfd, "slurm", "--cpu").replace("ddpdoctor", "")
    assert "nvidia.com/gpu" not in written(capfd, "k8s", "--cpu", "--image", "train:1")


def test_the_manifest_is_an_indexed_job_with_names_and_shared_memory(capfd: pytest.CaptureFixture[str]) -> None:
    manifest = written(capfd, "k8s", "--nodes", "3", "--name", "llm", "--image", "train:1", "--", "train.py")
    assert "completionMode: Indexed" in manifest
    assert "{name: MASTER_ADDR, value: llm-0.llm}" in manifest
    assert "emptyDir: {medium: Memory}" in manifest
    assert '--node-rank "$JOB_COMPLETION_INDEX"' in manifest
    assert all(len(line) - len(line.lstrip()) == line.index(line.strip()) for line in manifest.splitlines() if line)
    assert "\t" not in manifest


def test_a_file_is_executable_and_never_overwritten(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "launch.sh"
    assert cli.run(["init", "torchrun", "--output", str(file)]) == 0
    assert file.stat().st_mode & 0o111
    before = file.read_text()
    assert cli.run(["init", "slurm", "--output", str(file)]) == 2
    assert file.read_text() == before
    assert "already exists" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["condor"], "'condor' is not one of"),
        (["slurm", "--nodes", "0"], "--nodes"),
        (["slurm", "--name", "a b; rm"], "--name 'a b; rm' is not a valid job name"),
        (["slurm", "--interface", "$(id)"], "--interface '$(id)' is not the name of an interface"),
        (["k8s"], "--image is missing"),
        (["k8s", "--image", "a b"], "--image 'a b' is not an image name"),
        (["slurm", "--", "train.py", "a\nb"], "line break"),
        (["slurm", "--container", "pyxis"], "--image is missing"),
        (["slurm", "--image", "train:1"], "--image is given, but not what runs it"),
        (["torchrun", "--container", "apptainer", "--image", "a.sif"], "--container apptainer is for slurm"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["init", *arguments]) == 2
    assert says in capfd.readouterr().err


def test_a_task_a_rank_gets_its_rank_from_slurm_and_its_own_watch(capfd: pytest.CaptureFixture[str]) -> None:
    script = written(capfd, "slurm-tasks", "--nodes", "2", "--nproc-per-node", "4", "--cpus", "32", "--", "train.py")
    for line in ("#SBATCH --ntasks-per-node=4", "#SBATCH --cpus-per-task=8", "#SBATCH --gpus-per-node=4"):
        assert line in script.splitlines()
    assert "export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID LOCAL_WORLD_SIZE=4\n" in script
    assert 'ddpdoctor watch --case "$CASE" --stall-after 1800 --kill-on-hang -- python train.py\n' in script
    assert "torchrun" not in script.replace("without torchrun", "")


def test_a_pytorchjob_takes_the_numbers_of_its_pods_as_nodes(capfd: pytest.CaptureFixture[str]) -> None:
    import yaml

    manifest = yaml.safe_load(written(capfd, "pytorchjob", "--nodes", "3", "--image", "train:1", "--", "train.py"))
    replicas = manifest["spec"]["pytorchReplicaSpecs"]
    assert (replicas["Master"]["replicas"], replicas["Worker"]["replicas"]) == (1, 2)
    for role in ("Master", "Worker"):
        pod = replicas[role]["template"]["spec"]
        assert '--nnodes 3 --node-rank "$RANK"' in pod["containers"][0]["args"][0]
        assert pod["volumes"][0]["emptyDir"] == {"medium": "Memory"}


def test_one_node_has_no_worker(capfd: pytest.CaptureFixture[str]) -> None:
    assert "Worker" not in written(capfd, "pytorchjob", "--nodes", "1", "--image", "train:1")

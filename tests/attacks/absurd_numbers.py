"""Numbers that would size a container or a loop."""

# ruff: noqa: E501 - an input is a line
from __future__ import annotations

from tests.attacks.attack import NUMBERS, Attack
from tests.attacks.inputs import DUMPS, GLOO, LINT, LOG, SHELL, TRAIN, dump_with, text

ATTACKS: dict[str, Attack] = {
    "tasks 0-99999999": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LOG,
        make=text(job__log="srun: error: n1: tasks 0-99999999: Exited with exit code 1\n"),
    ),
    "tasks 99999990-99999999": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=LOG,
        make=text(job__log="srun: error: n1: tasks 99999990-99999999: Exited with exit code 1\n"),
        shows="not used: 10 of the ranks",
    ),
    "tasks 262140-262150": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=LOG,
        make=text(job__log="srun: error: n1: tasks 262140-262150: Killed\n"),
        shows="not used: 7 of the ranks",
    ),
    "rank of nine digits": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=DUMPS,
        make=lambda folder: (folder / "rank_999999999").write_bytes((GLOO / "rank_0").read_bytes()) and None,
    ),
    "rank in a table of torchrun": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LOG,
        make=text(
            job__log="Root Cause (first observed failure):\n[0]:\n  rank      : 999999999999 (local_rank: 9)\n  exitcode  : -9 (pid: 1)\n"
        ),
    ),
    "world size in a log": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LOG,
        make=text(
            job__log="WORLD_SIZE=300000000\nRANK=0\ntorch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/300000000 clients joined.\n"
        ),
    ),
    "number of 5,000 digits": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=LOG,
        make=text(job__log=f"[rank{'9' * 5000}]: ValueError: x\n{'9' * 5000}\n"),
    ),
    "nodes and tasks of a job script": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LINT,
        make=text(
            job__sh=f"{SHELL}#SBATCH --nodes=99999999999\n#SBATCH --ntasks-per-node={'9' * 5000}\nfor i in $(seq 1 99999999999); do :; done\nfor i in {{1..999999999}}; do torchrun --nproc-per-node=$((2**62)) t.py; done\n"
        ),
    ),
    "replicas of a manifest": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LINT,
        make=text(
            job__yaml=f"kind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Worker: {{replicas: {'9' * 30}}}\n    Master: {{replicas: -1}}\n"
        ),
    ),
    "5,000 digits in a manifest": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=LINT,
        make=text(
            job__yaml=f"kind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Worker: {{replicas: {'9' * 5000}}}\n"
        ),
    ),
    "powers in a program": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=LINT,
        make=text(
            t__py=TRAIN
            + "x = 9**9**9**9\ny = 'a' * 10**12\nz = [0] * 10**12\nw = 1 << 10**12\nv = f'{1:10000000000}'\nfor i in range(10**15): dist.barrier()\n"
        ),
    ),
    "5,000 digits in a project file": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=LINT,
        make=text(t__py=TRAIN, pyproject__toml=f"[tool.ddpdoctor.lint]\nignore = [{'9' * 5000}]\n"),
        codes=(2,),
    ),
    "5,000 digits in a baseline": Attack(
        kind=NUMBERS,
        law="no crash",
        arguments=("lint", ".", "--baseline", "b.json"),
        make=text(t__py=TRAIN, b__json=f'{{"version": {"9" * 5000}}}'),
        codes=(2,),
    ),
    "5,000 digits in a program": Attack(
        kind=NUMBERS, law="no crash", arguments=LINT, make=text(t__py=f"{TRAIN}x = {'9' * 5000}\n")
    ),
    "calls of a recorder": Attack(
        kind=NUMBERS,
        law="bounded",
        arguments=DUMPS,
        make=dump_with(collective_seq_id=2**62, record_id=10**18, input_sizes=[[2**62] * 3], timeout_ms=-(2**63)),
    ),
}

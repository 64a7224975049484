"""Scripts that source or start other scripts: what stands in those counts for the line that runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.workflows.lint import lint_paths

JOB = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --exclusive\n#SBATCH --cpus-per-task=32\n"
CPUS = "export SRUN_CPUS_PER_TASK=32\n"
TORCHRUN = "torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29400 train.py\n"


@pytest.mark.parametrize(
    ("job", "others", "found"),
    [
        (
            f'#SBATCH --ntasks-per-node=8\n{CPUS}srun bash run_node.sh "$@"\n',
            {"run_node.sh": TORCHRUN},
            {("DDP706", 7)},
        ),
        (
            f"#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n{CPUS}srun ./scripts/node.sh 8\n",
            {"scripts/node.sh": TORCHRUN.replace("=8", "=$1")},
            {("DDP708", 8)},
        ),
        (
            f'#SBATCH --ntasks-per-node=1\n{CPUS}srun bash "${{DIR}}/node.sh"\n',
            {"node.sh": f"export MASTER_ADDR=$(hostname)\n{TORCHRUN.replace('$HEAD', '$MASTER_ADDR')}"},
            {("DDP764", 7)},
        ),
        (
            'source "$(dirname "$0")/common.sh"\nbegin train.py\n',
            {"common.sh": f"begin() {{\n  {TORCHRUN}}}\n"},
            {("DDP707", 6)},
        ),
    ],
    ids=["a shell in every task", "an argument", "the address in a task", "a function that is sourced"],
)
def test_what_another_script_does_is_named_where_it_is_run(
    job: str, others: dict[str, str], found: set[tuple[str, int]], tmp_path: Path
) -> None:
    (tmp_path / "job.sbatch").write_text(JOB + job)
    for name, text in others.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    findings = lint_paths([tmp_path]).report.findings
    at = {(each.code, each.where[0].line) for each in findings if each.where[0].file.endswith("job.sbatch")}
    assert found <= at


@pytest.mark.parametrize(
    "job",
    [
        f"#SBATCH --ntasks-per-node=1\n{CPUS}srun bash run_node.sh\n",
        f"#SBATCH --ntasks-per-node=8\n{CPUS}cat run_node.sh\nsrun python train.py --launcher run_node.sh\n",
        f"#SBATCH --ntasks-per-node=8\n{CPUS}srun bash elsewhere.sh\nsource job.sbatch.sh\n",
    ],
    ids=["one task per node", "named and not run", "not at hand"],
)
def test_a_script_that_is_started_rightly_or_not_at_all_gets_silence(job: str, tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text(JOB + job)
    (tmp_path / "run_node.sh").write_text(TORCHRUN)
    (tmp_path / "loop.sh").write_text("source loop2.sh\n")
    (tmp_path / "loop2.sh").write_text("source loop.sh\n")
    assert not lint_paths([tmp_path]).report.findings


def test_what_every_script_is_told_for_itself_is_told_once(tmp_path: Path) -> None:
    """A deprecated launcher and a debug setting in a script that another one starts belong to that one alone."""
    (tmp_path / "job.sbatch").write_text(f"{JOB}#SBATCH --ntasks-per-node=1\n{CPUS}srun bash node.sh\n")
    (tmp_path / "node.sh").write_text(
        "export NCCL_P2P_LEVEL=PXB\npython -m torch.distributed.launch --use-env --nnodes=2 --nproc-per-node=8 train.py\n"
    )
    named = [(each.code, Path(each.where[0].file).name) for each in lint_paths([tmp_path]).report.findings]
    assert [code for code, _ in named].count("DDP703") == 1
    assert ("DDP703", "node.sh") in named
    assert ("DDP760", "job.sbatch") not in named

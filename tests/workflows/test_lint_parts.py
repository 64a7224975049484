"""`lint` of a large tree: rules judge each part of the code in the process that reads it, and say what they say of the whole."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from ddpdoctor.source import parallel_reading
from ddpdoctor.workflows.lint import LintOptions, lint_paths
from tests.training_programs import GOOD

UNDER_THE_RANK = GOOD.replace("        dist.barrier()\n", "        if rank == 0:\n            dist.barrier()\n")
SPAWNS = """\
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files are many, and each program is a part."""
    monkeypatch.setattr(parallel_reading, "FEW", 1)
    monkeypatch.setattr(parallel_reading, "MOST_BYTES", 1)


def _written(folder: Path, **files: str) -> None:
    for name, text in files.items():
        file = folder / name.replace("__", "/").replace("_sh", ".sh")
        file = file if file.suffix else file.with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.usefixtures("small_parts")
def test_parts_are_judged_as_the_whole_is(tmp_path: Path) -> None:
    """Findings, their order, what each rule says that did not find anything, and the notes of comments that silence."""
    _written(
        tmp_path,
        a__train=UNDER_THE_RANK,
        b__train=GOOD,
        c__train=UNDER_THE_RANK.replace("sampler.set_epoch(epoch)", "pass  # ddpdoctor: ignore[DDP755] nothing"),
        d__plain="print('no job')  # ddpdoctor: ignore[DDP711] nothing\n",
    )
    whole = lint_paths([tmp_path], LintOptions(facts=True))
    parts = lint_paths([tmp_path])
    assert parts.report == whole.report
    assert [finding.code for finding in parts.report.findings].count("DDP730") == 2
    assert parts.report.notes


@pytest.mark.usefixtures("small_parts")
def test_a_script_that_starts_one_of_two_programs_of_a_name_has_one_finding(tmp_path: Path) -> None:
    _written(tmp_path, a__train=SPAWNS, b__train=SPAWNS, run_sh="torchrun --nproc-per-node=2 train.py\n")
    whole = lint_paths([tmp_path], LintOptions(select=("DDP739",), facts=True))
    parts = lint_paths([tmp_path], LintOptions(select=("DDP739",)))
    assert parts.report.findings == whole.report.findings
    assert len(parts.report.findings) == 1


def test_facts_are_kept_where_they_are_asked_for(tmp_path: Path) -> None:
    """A case holds all of them; without one, only the comments are left."""
    _written(tmp_path, train=GOOD)
    kept, left = (lint_paths([tmp_path], LintOptions(facts=facts)).evidence.job for facts in (True, False))
    assert any(module.functions for fact in kept for module in fact.modules)
    assert not any(module.functions for fact in left for module in fact.modules)


def test_what_was_read_is_free_when_it_was_judged(tmp_path: Path) -> None:
    """Nothing is left to the collector of garbage, which would go over all trees and facts of each part: 12 % of the time."""
    _written(tmp_path, train=UNDER_THE_RANK)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        lint_paths([tmp_path])
        gc.collect()
        left = {type(one).__name__ for one in gc.garbage if type(one).__module__.startswith(("ast", "ddpdoctor."))}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert not left

"""Mistakes behind one more step: a function that is handed on, a generator around a loader, clean-up that nothing calls."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.training_programs import source, training

_Changes = list[tuple[str, str]]
_END = "    dist.destroy_process_group()\n"
_EVERY_BATCH = "        for images, labels in loader:\n            optimizer"


def _cleaned(call: str) -> _Changes:
    """The process group ends in a function, which the end of the program calls or does not."""
    helper = f"def cleanup():\n{_END}\n\n"
    return [("dist.destroy_process_group()", call), ("def main", f"{helper}def main")]


def _drawn_forever(sampler: str) -> _Changes:
    """Batches come from the program's own generator without an end."""
    forever = "def forever(batches):\n    while True:\n        for batch in batches:\n            yield batch\n\n\n"
    return [
        ("batch_size=64, sampler=sampler", f"batch_size=64, {sampler}"),
        ("    best = 0.0\n", "    best = 0.0\n    stream = forever(loader)\n"),
        (
            _EVERY_BATCH,
            "        for _ in range(100):\n            images, labels = next(stream)\n            optimizer",
        ),
        ("def main", f"{forever}def main"),
    ]


def _own_files(end: str) -> _Changes:
    """A generator counts through what the rank has read of its files."""
    batches = (
        "def batches(files, rank):\n"
        "    rows = []\n"
        "    for file in files[rank :: dist.get_world_size()]:\n"
        "        rows += torch.load(file)\n"
        f"    for start in range(0, {end}, 64):\n"
        "        yield rows[start : start + 64]\n\n\n"
    )
    return [
        (_EVERY_BATCH, "        for images, labels in batches(['0.pt', '1.pt'], rank):\n            optimizer"),
        ("def main", f"{batches}def main"),
    ]


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        ("DDP724", _cleaned("pass"), _cleaned("cleanup()")),
        ("DDP710", _drawn_forever("shuffle=True"), _drawn_forever("sampler=sampler")),
        ("DDP735", _own_files("len(rows)"), _own_files("6400")),
    ],
    ids=["clean-up that nothing calls", "loader behind a generator", "length of the own rows"],
)
def test_a_mistake_and_its_healthy_twin(code: str, sick: _Changes, healthy: _Changes) -> None:
    assert code in _codes(*sick)
    assert code not in _codes(*healthy)


_SPAWNED = """import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from functools import partial
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def work(local_rank, world):
    dist.init_process_group("nccl", rank=local_rank, world_size=world)
    torch.cuda.set_device(local_rank)
    DistributedDataParallel(nn.Linear(3, 1).cuda(), device_ids=[local_rank])
    dist.destroy_process_group()


def launch(entry, nodes):
    gpus = torch.cuda.device_count()
    {start}


if __name__ == "__main__":
    launch(work, nodes=2)
"""


@pytest.mark.parametrize(
    "start",
    [
        "mp.spawn(work, args=(nodes * gpus,), nprocs=gpus)",
        "mp.spawn(partial(work, world=nodes * gpus), nprocs=gpus)",
        "mp.spawn(entry, args=(nodes * gpus,), nprocs=gpus)",
        "for i in range(gpus):\n        mp.Process(target=entry, args=(i, nodes * gpus)).start()",
        "for i in range(gpus):\n        mp.Process(target=work, args=(i,), kwargs={'world': nodes * gpus}).start()",
    ],
)
def test_what_processes_run_is_found_however_it_is_handed_on(start: str) -> None:
    def codes(text: str) -> set[str]:
        return {each.code for each in diagnose(source(train=text)).findings}

    assert "DDP728" in codes(_SPAWNED.format(start=start))
    assert "DDP728" not in codes(_SPAWNED.format(start=start.replace("nodes * gpus", "gpus")))


def _codes(*changes: tuple[str, str]) -> list[str]:
    report = diagnose(training(*changes))
    assert not report.crashed
    return [each.code for each in report.findings]

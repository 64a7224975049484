"""Loops whose length comes from the rank's own data (DDP735) or from a loss of its own (DDP732), and their healthy twins."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.model import Severity
from tests.training_programs import training

_LOADER = "    sampler = DistributedSampler(train_data)\n    loader = DataLoader(train_data, batch_size=64, sampler=sampler)\n"
_EPOCH = "        sampler.set_epoch(epoch)\n        ddp.train()\n"
_IMPORT = ("from torch.utils.data import DataLoader\n", "from torch.utils.data import DataLoader, Subset\n")


def _over(before: str, *, loop: str = "for images, labels in loader:") -> Evidence:
    """The good program with other lines in place of its loader, and for the loop of the batches."""
    return training(
        _IMPORT,
        (_LOADER, "    world = dist.get_world_size()\n" + before),
        (_EPOCH, "        ddp.train()\n"),
        ("        for images, labels in loader:\n            optimizer", f"        {loop}\n            optimizer"),
    )


_SUBSET = "    loader = DataLoader(Subset(train_data, {}), batch_size=64, shuffle=True)\n"
_REST = "    end = 99 if rank == world - 1 else (rank + 1) * 8\n"
_NAMES = "    names = sorted(os.listdir('data')){}\n    images = labels = train_data[0][0]\n"
_VAL = (
    "    best = 0.0\n",
    "    best = 0.0\n    world = dist.get_world_size()\n    files = sorted(os.listdir('val'))\n",
)
_SUMS = (
    "        if accuracy > best:\n",
    (
        "        for path in files[rank::world]:\n            value = torch.load(path, map_location='cpu').to(device)\n"
        "            dist.all_reduce(value)\n        if accuracy > best:\n"
    ),
)


def _found(evidence: Evidence) -> list[tuple[str, str]]:
    report = diagnose(evidence)
    assert not report.crashed
    return [(each.code, each.message) for each in report.findings if each.severity is not Severity.INFO]


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        (_over(_SUBSET.format("list(range(len(train_data)))[rank::world]")), "the backward in line 48 needs all ranks"),
        (_over(_SUBSET.format("range(rank, len(train_data), world)")), "the backward in line 48 needs all ranks"),
        (
            _over(_NAMES.format("[rank::world]"), loop="for number in range(len(names)):"),
            "`for number in range(len(names))`",
        ),
        (
            _over(_REST + _NAMES.format("[rank * 8 : end]"), loop="for number in range(len(names)):"),
            "`for number in range(len(names))`",
        ),
        (training(_VAL, _SUMS), "and the all_reduce in line 56 needs all ranks"),
    ],
    ids=["slice", "range", "length", "last takes the rest", "collective"],
)
def test_a_loop_that_is_longer_on_one_rank_is_named(evidence: Evidence, says: str) -> None:
    ((code, message),) = _found(evidence)
    assert code == "DDP735"
    assert says in message


@pytest.mark.parametrize(
    "evidence",
    [
        _over("    even = len(train_data) // world * world\n" + _SUBSET.format("list(range(even))[rank::world]")),
        _over("    even = len(train_data) - len(train_data) % world\n" + _SUBSET.format("range(rank, even, world)")),
        _over("    shards = int(os.environ.get('SHARDS', '64'))\n" + _SUBSET.format("range(rank, shards, world)")),
        _over(_NAMES.format("[rank::world]"), loop="for number in range(len(train_data) // world):"),
        _over(_NAMES.format("[rank * 8 : (rank + 1) * 8]"), loop="for number in range(len(names)):"),
        training((_VAL[0], _VAL[1].replace("'val'))", "'val'))[: 8 * world]")), _SUMS),
        training(_VAL, (_SUMS[0], _SUMS[1].replace("dist.all_reduce(value)", "print(value)"))),
    ],
    ids=["slice", "range", "option", "length", "contiguous", "collective", "alone"],
)
def test_a_loop_that_is_equally_long_everywhere_is_not(evidence: Evidence) -> None:
    assert not _found(evidence)


_EXTRA = (
    "            optimizer.step()\n            {}\n            {}\n                dist.all_reduce({}loss.detach())\n"
)


@pytest.mark.parametrize(
    ("decides", "loop"),
    [
        ("extra = 1 if loss.item() < 0.5 else 2", "for _ in range(extra):"),
        ("", "while loss.item() > 5:"),
        ("until = time.time() + 60", "while time.time() < until:"),
    ],
)
def test_a_loop_that_the_ranks_own_loss_ends_is_named(decides: str, loop: str) -> None:
    change = ("            optimizer.step()\n", _EXTRA.format(decides, loop, ""))
    ((code, message),) = _found(training(change, ("import os\n", "import os\nimport time\n")))
    assert code == "DDP732"
    assert f"`{loop.removesuffix(':')}` turns as often as each rank's own" in message


@pytest.mark.parametrize(
    ("decides", "loop"),
    [
        (
            "mean = loss.detach().clone(); dist.all_reduce(mean); extra = 1 if mean.item() < 0.5 else 2",
            "for _ in range(extra):",
        ),
        ("extra = 1 if epoch < 5 else 2", "for _ in range(extra):"),
        ("extra = images.shape[0]", "for _ in range(extra):"),
    ],
)
def test_a_loop_that_all_ranks_end_together_is_not(decides: str, loop: str) -> None:
    assert not _found(training(("            optimizer.step()\n", _EXTRA.format(decides, loop, ""))))

"""Input that cannot be used: rank 0 says what and why, all ranks end with code 2, and nothing is half-written."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from train import DIGITS

from tests.reference_train.forked import exit_code, fork_ranks, kill


def refusal(tmp_path: Path, *options: str, ranks: int = 2) -> str:
    """What rank 0 says of options that all ranks refuse, while the others are silent."""
    codes, said = outcome(tmp_path, *options, ranks=ranks)
    assert codes == [2] * ranks, said
    assert not any(said[1:])
    assert "Traceback" not in said[0]
    return said[0]


def outcome(tmp_path: Path, *options: str, ranks: int = 2) -> tuple[list[int | None], list[str]]:
    """The exit code of each rank of recipe.py, and what it said."""
    started = fork_ranks("recipe", *options, ranks=ranks, said=tmp_path)
    try:
        codes = [exit_code(rank) for rank in started]
    finally:
        kill(started)
    return codes, [(tmp_path / str(rank)).read_text() for rank in range(ranks)]


def run_three_steps(tmp_path: Path, *options: str) -> None:
    codes, said = outcome(tmp_path, "--max-steps", "3", "--batch-size", "60", *options)
    assert codes == [0, 0], said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--dataset", "imagenet"], "argument --dataset: invalid choice: 'imagenet'"),
        (["--model", "vgg"], "argument --model: invalid choice: 'vgg'"),
        (["--lr", "nan"], "--lr nan is not a learning rate"),
        (["--accumulate", "5"], "--accumulate 5 does not divide the 32 samples that each of 2 ranks has a step"),
        (["--batch-size", "1"], "--batch-size 1 is smaller than the 2 ranks that share it"),
        (["--data-dir", "/no/such"], "/no/such holds neither train-images-idx3-ubyte nor"),
        (["--dataset", "cifar10", "--data-dir", "/no/such"], "/no/such holds neither data_batch_1.bin nor"),
        (["--json-lines", "/no/such/log"], "cannot write /no/such/log: No such file or directory"),
        (["--plot", "/no/such/curve.png"], "cannot write /no/such/curve.png: /no/such is no directory"),
        (["--checkpoint-dir", "/proc/kept", "--max-steps", "1"], "cannot write the checkpoint /proc/kept/best.pt"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_rank_0_refuses_and_all_end(tmp_path: Path, options: list[str], says: str) -> None:
    assert says in refusal(tmp_path, *options)


def test_a_file_that_only_one_rank_finds_cut_short_ends_all(tmp_path: Path) -> None:
    for path in DIGITS.glob("*.gz"):
        shutil.copy(path, tmp_path)
    cut = tmp_path / "train-images-idx3-ubyte"
    cut.write_bytes(gzip.decompress((DIGITS / "train-images-idx3-ubyte.gz").read_bytes())[:100_000])

    said = refusal(tmp_path, "--data-dir", str(tmp_path))

    assert f"{cut} has 100000 bytes; its header promises 6272016 (shape (8000, 28, 28))" in said


def test_a_checkpoint_of_another_job_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    resume = ("--batch-size", "60", "--checkpoint-dir", str(kept), "--resume")
    run_three_steps(tmp_path, "--checkpoint-dir", str(kept))
    before = {path.name: path.read_bytes() for path in kept.iterdir()}

    assert "last.pt is of another job: world_size 2 instead of 3" in refusal(tmp_path, *resume, ranks=3)
    assert "model 'digitnet' instead of 'resnet9'" in refusal(tmp_path, *resume, "--model", "resnet9")
    assert "last.pt is of another job: lr 0.09375 instead of 0.5" in refusal(tmp_path, *resume, "--lr", "0.5")
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before

    (kept / "last.pt").write_bytes(before["last.pt"][:1000])
    assert "last.pt (1000 bytes) is not a checkpoint of this job: " in refusal(tmp_path, *resume)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes, room for one checkpoint and not for two."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.root
def test_a_full_disk_ends_all_ranks_and_keeps_the_checkpoint_that_is_whole(tmp_path: Path, small_disk: Path) -> None:
    said = refusal(tmp_path, "--max-steps", "3", "--checkpoint-dir", str(small_disk / "kept"))

    assert "cannot write the checkpoint" in said
    assert "No space left on device" in said
    assert [path.name for path in (small_disk / "kept").iterdir()] == ["best.pt"]
    assert (small_disk / "kept" / "best.pt").stat().st_size > 1_500_000


@pytest.mark.root
def test_a_directory_that_is_read_only_is_named(tmp_path: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    said = refusal(tmp_path, "--max-steps", "3", "--checkpoint-dir", str(small_disk / "kept"))

    assert f"cannot write the checkpoint {small_disk}/kept/best.pt: " in said
    assert "Read-only file system" in said

"""The reference job: right with any number of ranks, the same twice, and clear about input that it cannot use."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import train
from train import DIGITS, BadInput, load, name_of, read_idx

from tests.reference_train.forked import exit_code, fork_ranks, kill


def run(log: Path, *arguments: str) -> dict[str, Any]:
    """The end of a run on three ranks, which 1,000 test digits do not divide by."""
    started = fork_ranks("train", *arguments, "--json-lines", str(log), ranks=3, said=log.parent)
    try:
        codes = [exit_code(rank) for rank in started]
    finally:
        kill(started)
    assert codes == [0, 0, 0], (log.parent / "0").read_text()
    return end_of(log)


def end_of(log: Path) -> dict[str, Any]:
    return next(event for line in log.read_text().splitlines() if (event := json.loads(line))["event"] == "end")


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The ends of two runs of one epoch with the same seed."""
    folder = tmp_path_factory.mktemp("runs")
    return [run(folder / name, "--epochs", "1") for name in ("first.jsonl", "second.jsonl")]


def test_two_runs_with_one_seed_end_with_the_same_bits(two_runs: list[dict[str, Any]]) -> None:
    first, second = two_runs
    assert len(first["weights"]) == 3
    assert len({*first["weights"], *second["weights"]}) == 1
    assert first["test_loss"] == second["test_loss"]


def test_every_test_digit_counts_exactly_once_on_three_ranks(two_runs: list[dict[str, Any]]) -> None:
    assert (two_runs[0]["accuracy"] * 1000).is_integer()
    assert two_runs[0]["test_samples"] == 1000
    assert two_runs[0]["accuracy"] > 0.85


def write_idx(path: Path, shape: tuple[int, ...], content: bytes) -> None:
    path.write_bytes(bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + content)


def test_plain_and_compressed_files_and_torchvisions_layout_read_the_same(tmp_path: Path) -> None:
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for path in DIGITS.glob("t10k-*.gz"):
        (raw / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    for ours, theirs in zip(load(tmp_path, "t10k").tensors, load(DIGITS, "t10k").tensors, strict=True):
        assert ours.equal(theirs)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "begins with "),
        (b"\x00\x00\x0d\x03", "is not an idx file of 3 dimensions of bytes: it begins with 00000d03"),
        (b"<html>not found</html>", "begins with 3c68746d"),
        (
            struct.pack(">4I", 0x803, 10, 28, 28) + bytes(7000),
            r"has 7016 bytes; its header promises 7856 (shape (10, 28, 28))",
        ),
        (struct.pack(">4I", 0x803, 10, 28, 28) + bytes(7841), r"has 7857 bytes; its header promises 7856"),
        (struct.pack(">4I", 0x803, 2**31, 2**31, 28), "has 16 bytes; its header promises"),
    ],
    ids=["empty", "doubles", "html", "truncated", "too long", "absurd"],
)
def test_a_file_that_is_not_what_it_should_be_is_named_with_its_bytes(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read_idx(tmp_path, path.name)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_a_compressed_file_cut_short_says_how_much_is_there(tmp_path: Path) -> None:
    whole = (DIGITS / "t10k-images-idx3-ubyte.gz").read_bytes()
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match=r"t10k-images-idx3-ubyte.gz has \d+ bytes; its header promises 784016"):
        read_idx(tmp_path, "t10k-images-idx3-ubyte")


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(b"\x1f\x8b\x08\x00" + b"\xff" * 40)
    with pytest.raises(BadInput, match=r"t10k-images-idx3-ubyte.gz cannot be read: Error -3"):
        read_idx(tmp_path, "t10k-images-idx3-ubyte")


def test_images_and_labels_of_different_number_are_refused(tmp_path: Path) -> None:
    shutil.copy(DIGITS / "t10k-images-idx3-ubyte.gz", tmp_path)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte", (3,), b"\x01\x02\x03")
    with pytest.raises(BadInput, match="holds 1000 t10k images but 3 labels"):
        load(tmp_path, "t10k")


def test_other_data_in_mnists_format_is_not_called_mnist(tmp_path: Path) -> None:
    write_idx(tmp_path / "train-images-idx3-ubyte", (2, 28, 28), bytes(2 * 28 * 28))
    write_idx(tmp_path / "train-labels-idx1-ubyte", (2,), b"\x01\x02")
    assert name_of(tmp_path, load(tmp_path, "train")) == f"the files in {tmp_path}"


def test_a_copy_without_its_neighbours_refuses_what_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "__file__", str(tmp_path / "train.py"))
    with pytest.raises(SystemExit, match=r"train\.py has no option --dataset; `train\.py --help`"):
        train.main(["--dataset", "cifar10"])


def test_without_a_launcher_it_says_how_to_start_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(SystemExit, match="torchrun --nproc-per-node 2"):
        train.main([])

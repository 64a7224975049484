"""CIFAR-10 as it is out there: binary, pickled, cut short, and hostile."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import cifar10
import numpy as np
import pytest
from train import BadInput

ROOT = Path(__file__).parents[2]
REAL = Path(os.environ.get("DDPDOCTOR_TEST_DATA", ROOT.parent / "shared" / "data")) / "cifar-10-batches-bin"
EACH = 20


def records(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (EACH, 3072), np.uint8), random.integers(0, 10, EACH).astype(np.uint8)


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for seed, name in enumerate((*cifar10.TRAINING, *cifar10.TEST)):
        images, labels = records(seed)
        (folder / f"{name}.bin").write_bytes(np.concatenate([labels[:, None], images], axis=1).tobytes())
    return folder


@pytest.fixture
def pickled(tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for seed, name in enumerate((*cifar10.TRAINING, *cifar10.TEST)):
        images, labels = records(seed)
        batch = {b"data": images, b"labels": labels.tolist(), b"batch_label": b"x", b"filenames": [b"a.png"] * EACH}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    return folder


def test_both_versions_read_the_same_from_their_folder_or_the_one_above(binary: Path, pickled: Path) -> None:
    wanted, _ = cifar10.load(binary)
    assert wanted.tensors[0].shape == (5 * EACH, 3, 32, 32)
    for folder in (pickled, binary.parent):
        training, test = cifar10.load(folder)
        assert training.tensors[0].equal(wanted.tensors[0])
        assert training.tensors[1].equal(wanted.tensors[1])
        assert len(test) == EACH


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no CIFAR-10 in {REAL}")
def test_the_real_images_are_balanced_and_natural() -> None:
    training, test = cifar10.load(REAL)
    assert np.bincount(training.tensors[1]).tolist() == [1000] * 10
    assert len(test) == 2000
    assert 0.4 < training.tensors[0].float().mean().item() / 255 < 0.55


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (
            lambda content: content[:-1],
            "has 61459 bytes, not a whole number of records of 3073; the original has 30730000",
        ),
        (lambda content: b"", "has 0 bytes, not a whole number of records"),
        (lambda content: b"\x0a" + content[1:], "holds the label 10; CIFAR-10 has 0 to 9"),
    ],
    ids=["cut short", "empty", "label 10"],
)
def test_a_damaged_binary_file_is_named(binary: Path, damage, says: str) -> None:
    path = binary / "data_batch_3.bin"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(BadInput) as caught:
        cifar10.load(binary)
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)


def test_a_missing_file_is_named(binary: Path) -> None:
    (binary / "data_batch_5.bin").unlink()
    with pytest.raises(BadInput, match=r"data_batch_5\.bin cannot be read: No such file"):
        cifar10.load(binary)


def test_a_folder_without_cifar_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"holds neither data_batch_1\.bin nor data_batch_1"):
        cifar10.load(tmp_path)


class Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("hidden", [False, True], ids=["plain", "inside an object array"])
def test_a_pickle_that_runs_something_is_refused_and_not_run(pickled: Path, tmp_path: Path, *, hidden: bool) -> None:
    mark = tmp_path / "executed"
    data = np.array([Evil(mark)], dtype=object) if hidden else Evil(mark)
    (pickled / "data_batch_2").write_bytes(pickle.dumps({b"data": data, b"labels": [1]}, protocol=2))

    with pytest.raises(BadInput, match=r"names posix\.system is not a batch of CIFAR-10, and is not opened"):
        cifar10.load(pickled)

    assert not mark.exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not a batch of CIFAR-10"),
        (b"\x80\x02}q", "is not a batch of CIFAR-10"),
        (pickle.dumps([1, 2]), "holds no array of bytes"),
        (pickle.dumps({b"data": np.zeros((2, 5), np.uint8), b"labels": [1, 2]}), "holds no array of bytes"),
        (
            pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}),
            "holds 2 images, but not as many labels",
        ),
    ],
    ids=["empty", "cut short", "a list", "wrong shape", "too few labels"],
)
def test_a_pickle_that_is_no_batch_is_named(pickled: Path, content: bytes, says: str) -> None:
    (pickled / "data_batch_2").write_bytes(content)
    with pytest.raises(BadInput) as caught:
        cifar10.load(pickled)
    assert str(pickled / "data_batch_2") in str(caught.value)
    assert says in str(caught.value)

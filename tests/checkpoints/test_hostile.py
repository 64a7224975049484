"""Files that nobody should trust: refused with a reason, and nothing in them is run."""

from __future__ import annotations

import os
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ddpdoctor.checkpoints.reader import UnreadableError
from ddpdoctor.checkpoints.tensor_table import listing
from tests.checkpoints.writing import write_dcp, write_pt, write_safetensors


class Runs:
    """Makes a directory when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def zip_with_code(path: Path, mark: Path) -> None:
    torch.save({"w": torch.ones(2), "x": Runs(mark)}, path)


def bare_pickle(path: Path, mark: Path) -> None:
    path.write_bytes(pickle.dumps(Runs(mark)))


def old_format(path: Path, mark: Path) -> None:
    torch.save({"w": torch.ones(2), "x": Runs(mark)}, path, _use_new_zipfile_serialization=False)


def whole_module(path: Path, mark: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), path)


def metadata_with_code(path: Path, mark: Path) -> None:
    write_dcp(path)
    (path / ".metadata").write_bytes(pickle.dumps(Runs(mark)))


def piece_with_code(path: Path, mark: Path) -> None:
    """The table of contents is honest, a piece is not."""
    write_dcp(path, epoch=Runs(mark))


CODE = {
    zip_with_code: "posix.mkdir",
    bare_pickle: "bare pickle",
    old_format: "bare pickle",
    whole_module: "torch.nn.modules.linear.Linear",
    metadata_with_code: "posix.mkdir",
    piece_with_code: "posix.mkdir",
}


@pytest.mark.parametrize("write", CODE, ids=lambda write: write.__name__)
def test_code_in_a_checkpoint_is_refused_and_never_run(tmp_path: Path, write: Callable[[Path, Path], None]) -> None:
    mark = tmp_path / "it ran"
    write(tmp_path / "rank0.pt", mark)
    with pytest.raises(UnreadableError, match=CODE[write]):
        listing(tmp_path / "rank0.pt")
    assert not mark.exists()


def empty(path: Path) -> None:
    path.touch()


def text(path: Path) -> None:
    path.write_text("loss 0.3\n")


def directory(path: Path) -> None:
    path.mkdir()


def another_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")


def no_tensor(path: Path) -> None:
    torch.save({"epoch": 3}, path)


def contains_itself(path: Path) -> None:
    tree: dict[str, Any] = {"w": torch.ones(1)}
    tree["self"] = tree
    torch.save(tree, path)


def outside(path: Path) -> None:
    """The table of contents points to a file that is not in the directory."""
    write_dcp(path)
    metadata = path / ".metadata"
    metadata.write_bytes(metadata.read_bytes().replace(b"__0_0.distcp", b"../x/a.distc"))


BAD = {
    empty: "is empty",
    text: "neither a torch.save file nor safetensors",
    directory: "without .metadata",
    another_zip: "truncated or damaged",
    no_tensor: "contains no tensor",
    contains_itself: "nested without end",
    outside: "outside of it",
}


@pytest.mark.parametrize("write", BAD, ids=lambda write: write.__name__)
def test_what_is_no_checkpoint_is_told_so(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path / "rank0.pt")
    with pytest.raises(UnreadableError, match=BAD[write]):
        listing(tmp_path / "rank0.pt")


def test_without_the_package_safetensors_it_is_said_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_safetensors(tmp_path / "rank0.safetensors")
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    with pytest.raises(UnreadableError, match=r"pip install 'ddpdoctor\[safetensors\]'"):
        listing(file)


@pytest.mark.parametrize("write", [write_pt, write_safetensors, write_dcp], ids=lambda write: write.__name__)
def test_damage_of_any_kind_is_told_or_read_and_never_crashes(tmp_path: Path, write: Callable[..., Path]) -> None:
    path = tmp_path / "checkpoint"
    write(path)
    victim = path / ".metadata" if path.is_dir() else path
    good = victim.read_bytes()
    dice = random.Random(7)
    told = 0
    for attempt in range(40):
        damaged = bytearray(good[: dice.randrange(len(good))] if attempt % 4 == 0 else good)
        for _ in range(dice.choice((1, 3, 20))):
            if damaged:
                damaged[dice.randrange(min(len(damaged), 5000))] = dice.randrange(256)
        victim.write_bytes(damaged)
        try:
            listing(path)
        except UnreadableError:
            told += 1
    assert told > 5


def zip_bomb(path: Path) -> None:
    """Ten kilobytes that become ten megabytes."""
    torch.save({"w": torch.zeros(2_500_000)}, path.with_suffix(".whole"))
    with (
        zipfile.ZipFile(path.with_suffix(".whole")) as whole,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for part in whole.infolist():
            packed.writestr(part.filename, whole.read(part))
    path.with_suffix(".whole").unlink()


def shared_containers(path: Path) -> None:
    """Each list holds the one below it ten times: a hundred entries that are ten thousand million."""
    tree: object = [torch.ones(1)]
    for _ in range(10):
        tree = [tree] * 10
    torch.save({"w": tree}, path)


def no_data(path: Path) -> None:
    torch.save({"w": torch.empty(1 << 40, device="meta")}, path)


def one_element_seen_often(path: Path) -> None:
    torch.save({"w": torch.ones(1).expand(1 << 33)}, path)


def contents_of_terabytes(path: Path) -> None:
    write_dcp(path)
    contents = pickle.loads((path / ".metadata").read_bytes())
    for kind in contents.state_dict_metadata.values():
        if hasattr(kind, "size"):
            kind.size = torch.Size([1 << 40])
    (path / ".metadata").write_bytes(pickle.dumps(contents))


GROWS = {
    zip_bomb: "compressed or overlap",
    shared_containers: "more than [\\d,]+ entries",
    no_data: "device meta",
    one_element_seen_often: "bytes of storage",
    contents_of_terabytes: "all files have",
}


@pytest.mark.parametrize("write", GROWS, ids=lambda write: write.__name__)
def test_what_is_small_and_grows_is_refused_before_it_does(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path / "rank0.pt")
    with pytest.raises(UnreadableError, match=GROWS[write]):
        listing(tmp_path / "rank0.pt")

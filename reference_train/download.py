"""Fetch MNIST or CIFAR-10 from their official mirrors; nothing is kept whose checksum is not the published one."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
import urllib.request
from pathlib import Path

from train import BadInput

DEADLINE_SECONDS = 60.0  # for the next bytes, not for the whole file
BLOCK_BYTES = 1 << 20

OFFICIAL = "https://ossci-datasets.s3.amazonaws.com/mnist/"

# file, where it is from, and the md5 that is published for it
MNIST = tuple(
    (f"{name}.gz", f"{OFFICIAL}{name}.gz", digest)
    for name, digest in (
        ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c"),
    )
)
CIFAR10 = (
    (
        "cifar-10-binary.tar.gz",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
    ),
)
FILES = {"mnist": MNIST, "cifar10": CIFAR10}


def download(dataset: str, folder: Path) -> None:
    """Put the files of `dataset` into `folder`, those that are not there yet.

    Raises:
        BadInput: the mirror does not answer, what it sends is not what was published, or `folder` is full or read-only.
    """
    for name, address, digest in FILES[dataset]:
        path = folder / name
        if not (path.exists() and _md5(path) == digest):
            _fetch(path, address, digest)
        if name.endswith(".tar.gz"):
            _unpack(path)


def _fetch(path: Path, address: str, digest: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as file,
            urllib.request.urlopen(address, timeout=DEADLINE_SECONDS) as answer,  # noqa: S310 - addresses of ours
        ):
            shutil.copyfileobj(answer, file, BLOCK_BYTES)
            file.flush()
            found = _md5(Path(file.name))
            if found != digest:
                raise BadInput(f"{address} sent something with md5 {found}; published is {digest}")
            shutil.copyfile(file.name, path)
    except OSError as error:  # URLError is one
        raise BadInput(f"cannot download {path.name} from {address}: {error}") from None


def _unpack(path: Path) -> None:
    try:
        with tarfile.open(path) as archive:
            archive.extractall(path.parent, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise BadInput(f"cannot unpack {path}: {error}") from None


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()

"""CIFAR-10 from its binary or its python version, each file checked before it is believed."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import TensorDataset
from train import BadInput

RECORD_BYTES = 3073  # a label, then 1,024 red, 1,024 green and 1,024 blue bytes
WHOLE_BYTES = 10_000 * RECORD_BYTES  # of a file of the original
MOST_BYTES = 256 << 20  # the largest original file has 31 MB
TRAINING = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = ("test_batch",)


def load(folder: Path) -> tuple[TensorDataset, TensorDataset]:
    """Training and test images, bytes of shape (n, 3, 32, 32), with their labels.

    `folder` holds the files of one version, or torchvision's directory of it.

    Raises:
        BadInput: files are missing, cut short or something else; the message names the file and its bytes.
    """
    for place in (folder, folder / "cifar-10-batches-bin", folder / "cifar-10-batches-py"):
        if (place / f"{TRAINING[0]}.bin").is_file():
            return _together(place, TRAINING, _binary), _together(place, TEST, _binary)
        if (place / TRAINING[0]).is_file():
            return _together(place, TRAINING, _pickled), _together(place, TEST, _pickled)
    raise BadInput(
        f"{folder} holds neither data_batch_1.bin nor data_batch_1, nor a cifar-10-batches directory with one"
    )


def _together(folder: Path, names: tuple[str, ...], read: Any) -> TensorDataset:  # noqa: ANN401 - _binary or _pickled
    parts = [read(folder / name) for name in names]
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return TensorDataset(
        torch.from_numpy(images.reshape(-1, 3, 32, 32).copy()), torch.from_numpy(labels.astype(np.int64))
    )


def _binary(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    path = path.with_suffix(".bin")
    content = _content(path)
    if not content or len(content) % RECORD_BYTES:
        raise BadInput(
            f"{path} has {len(content)} bytes, not a whole number of records of {RECORD_BYTES}; the original has {WHOLE_BYTES}"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD_BYTES)
    return records[:, 1:], _labels(path, records[:, 0])


def _pickled(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    try:
        batch = _ArraysOnly(io.BytesIO(_content(path)), encoding="bytes").load()
    except BadInput:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged pickle raises almost anything
        raise BadInput(f"{path} ({path.stat().st_size} bytes) is not a batch of CIFAR-10: {error}") from None
    images = batch.get(b"data") if isinstance(batch, dict) else None
    labels = batch.get(b"labels") if isinstance(batch, dict) else None
    if not (
        isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.ndim == 2 and images.shape[1] == 3072
    ):
        raise BadInput(f"{path} holds no array of bytes of shape (n, 3072) under b'data'")
    if not (
        isinstance(labels, list) and len(labels) == len(images) and all(isinstance(label, int) for label in labels)
    ):
        raise BadInput(f"{path} holds {len(images)} images, but not as many labels under b'labels'")
    return images, _labels(path, np.array(labels))


def _labels(path: Path, labels: NDArray[Any]) -> NDArray[np.uint8]:
    if labels.size and not 0 <= labels.min() <= labels.max() <= 9:
        raise BadInput(f"{path} holds the label {labels.max()}; CIFAR-10 has 0 to 9")
    return labels.astype(np.uint8)


def _content(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise BadInput(f"{path} has {size} bytes; the original has {WHOLE_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None


class _ArraysOnly(pickle.Unpickler):
    """Knows containers, numbers, strings and numpy arrays; a pickle that names anything else is refused, not executed."""

    _ALLOWED = {
        (module, name) for module in ("numpy.core.multiarray", "numpy._core.multiarray") for name in ("_reconstruct",)
    } | {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as its parent's
        if (module, name) not in self._ALLOWED:
            raise BadInput(f"a pickle that names {module}.{name} is not a batch of CIFAR-10, and is not opened")
        return super().find_class(module, name)

"""DDP409: data loader workers hand their batches over through a /dev/shm that is too small.

One rank gets a /dev/shm of 1 MB of its own, as Docker gives one of 64 MB to large jobs; that needs root.
"""

import ctypes
import os
import sys

from patient import admit
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CLONE_NEWNS = 0x00020000
MS_PRIVATE_RECURSIVE = 0x00044000


def shrink_shared_memory() -> None:
    """Give this process a /dev/shm of 1 MB that no other process sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.unshare(CLONE_NEWNS)
        or libc.mount(b"none", b"/", None, MS_PRIVATE_RECURSIVE, None)
        or libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=1m")
    ):
        sys.exit(f"this fault needs a /dev/shm of its own, as root: {os.strerror(ctypes.get_errno())}")


with admit() as patient:
    if patient.is_culprit:
        shrink_shared_memory()
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    images, labels = patient.data()[:]
    data = TensorDataset(images.repeat_interleave(16, 0), labels.repeat_interleave(16))
    loader = DataLoader(data, patient.batch_size * 128, sampler=DistributedSampler(data), num_workers=2)
    for images, labels in loader:  # sick
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()

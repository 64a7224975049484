"""Prints how many GPUs torch sees, or -1 where it was built without NCCL."""

from __future__ import annotations

import torch
import torch.distributed as dist

if __name__ == "__main__":
    print(torch.cuda.device_count() if dist.is_nccl_available() else -1)

"""Logs: builds without code for the GPU."""

from tests.checks import Sick
from tests.rank_ends import from_log

NO_KERNEL_IMAGE = r"""RuntimeError: CUDA error: no kernel image is available for execution on the device
"""
SM_NOT_COMPATIBLE = r"""/opt/env/lib/python3.11/site-packages/torch/cuda/__init__.py:235: UserWarning:
NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.
The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.
[rank0]: RuntimeError: CUDA error: no kernel image is available for execution on the device
"""

SICK = (
    Sick(
        evidence=from_log(NO_KERNEL_IMAGE),
        says="this build of torch or of an extension has no code for the GPU: no kernel image",
    ),
    Sick(
        evidence=from_log(SM_NOT_COMPATIBLE),
        says="this build of torch has no code for GPUs of sm_120 on rank 0",
        ranks=(0,),
        measured={"arch": "sm_120"},
    ),
)
HEALTHY = (from_log("step 10 loss 2.31\nstep 20 loss 2.20\n"),)

"""Logs: faults of kernels, the first rank by time."""

from tests.checks import Sick
from tests.rank_ends import from_log

DEVICE_ASSERT = r"""../aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block: [55,0,0], thread: [32,0,0] Assertion `srcIndex < srcSelectDimSize` failed.
[rank2]:[E1206 09:31:44.715298746 ProcessGroupNCCL.cpp:1414] [PG 0 Rank 2] Process group watchdog thread terminated with exception: CUDA error: device-side assert triggered
[rank0]:[E1206 09:41:44.715298746 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=25600, NumelOut=25600, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.
"""  # noqa: E501 - as libraries write it
TRITON_ILLEGAL = r"""[rank0]:[E728 11:07:49.454848243 ProcessGroupNCCL.cpp:1896] [PG ID 2 PG GUID 3 Rank 0] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered
[rank1]:[E728 11:07:52.454848243 ProcessGroupNCCL.cpp:1896] [PG ID 2 PG GUID 3 Rank 1] Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure
"""  # noqa: E501 - as libraries write it
ILLEGAL_ACCESS_WATCHDOG = r""" 94%|█████████▍| 837/888 [9:42:50<34:08, 40.17s/it][rank7]:[E ProcessGroupNCCL.cpp:1182] [Rank 7] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
"""  # noqa: E501 - as libraries write it
HANG_ON_ROCM = """HW Exception by GPU node-5 (Agent handle: 0x1a2b3c) reason :GPU Hang
Aborted (core dumped)
"""

SICK = (
    Sick(
        evidence=from_log(HANG_ON_ROCM),
        says="a kernel failed on the GPU of a rank that the log does not name: HW Exception by GPU node-5 (GPU Hang)",
        measured={"fault": "HW Exception by GPU node-5 (GPU Hang)"},
        also=("DDP403",),
    ),
    Sick(
        evidence=from_log(DEVICE_ASSERT),
        says="a kernel failed on the GPU of rank 2: device-side assert",
        ranks=(2,),
        measured={"fault": "device-side assert"},
        also=("DDP408",),
    ),
    Sick(
        evidence=from_log(TRITON_ILLEGAL),
        says="a kernel failed on the GPU of rank 0: illegal memory access",
        ranks=(0,),
        measured={"fault": "illegal memory access"},
    ),
    Sick(
        evidence=from_log(ILLEGAL_ACCESS_WATCHDOG),
        says="a kernel failed on the GPU of rank 7: illegal memory access",
        ranks=(7,),
        measured={"fault": "illegal memory access"},
    ),
)
HEALTHY = (from_log("step 10 loss 2.31\nstep 20 loss 2.20\n"),)

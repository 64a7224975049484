"""Logs: files that went from under a compiler's hands."""

from tests.checks import Sick
from tests.rank_ends import from_log

TRITON_REPLACE = r"""[rank11]:     os.replace(temp_path, filepath)
[rank11]: FileNotFoundError: [Errno 2] No such file or directory: '/home/hal/.triton/cache/cff6/_rms.ttir.tmp.pid_15735_304289' -> '/home/hal/.triton/cache/cff6/_rms.ttir'
"""  # noqa: E501 - as libraries write it
STALE_HANDLE = r"""[rank19]: torch._inductor.exc.InductorError: OSError: [Errno 116] Stale file handle: '/home/me/.triton/cache/XK/cuda_utils.cpython-310-x86_64-linux-gnu.so'
"""  # noqa: E501 - as libraries write it

SICK = (
    Sick(
        evidence=from_log(TRITON_REPLACE),
        says="rank 11 met a missing or stale file in a compile cache: FileNotFoundError: [Errno 2] No such file or "
        "directory: '/home/hal/.triton/cache/cff6/_rms.ttir.tmp.pid_15735_304289' -> "
        "'/home/hal/.triton/cache/cff6/_rms.ttir'",
        ranks=(11,),
        measured={"path": "/home/hal/.triton/cache/cff6/_rms.ttir.tmp.pid_15735_304289"},
    ),
    Sick(
        evidence=from_log(STALE_HANDLE),
        says="rank 19 met a missing or stale file in a compile cache: InductorError: OSError: [Errno 116] Stale file "
        "handle: '/home/me/.triton/cache/XK/cuda_utils.cpython-310-x86_64-linux-gnu.so'",
        ranks=(19,),
        measured={"path": "/home/me/.triton/cache/XK/cuda_utils.cpython-310-x86_64-linux-gnu.so"},
    ),
)
HEALTHY = (from_log("step 10 loss 2.31\nstep 20 loss 2.20\n"),)

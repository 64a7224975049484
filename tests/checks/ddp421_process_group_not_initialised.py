"""Logs: torch.distributed before init_process_group."""

from tests.checks import Sick
from tests.rank_ends import from_log

NOT_INITIALISED_BARRIER = r"""Traceback (most recent call last):
  File "tools/test.py", line 201, in <module>
    main()
  File "/home/u/seg/utils/dist.py", line 44, in reduce_metrics
    torch.distributed.barrier()
  File "/opt/env/lib/python3.8/site-packages/torch/distributed/distributed_c10d.py", line 2776, in barrier
    default_pg = _get_default_group()
RuntimeError: Default process group has not been initialized, please make sure to call init_process_group.
"""
VALUE_ERROR_TORCH21 = r"""[rank0]: ValueError: Default process group has not been initialized, please make sure to call init_process_group.
"""  # noqa: E501 - as libraries write it

SICK = (
    Sick(
        evidence=from_log(NOT_INITIALISED_BARRIER),
        says="a rank that the log does not name used torch.distributed before init_process_group, "
        "or after destroy_process_group",
        where=("/home/u/seg/utils/dist.py:44 reduce_metrics",),
    ),
    Sick(
        evidence=from_log(VALUE_ERROR_TORCH21),
        says="rank 0 used torch.distributed before init_process_group, or after destroy_process_group",
        ranks=(0,),
    ),
)
HEALTHY = (from_log("step 10 loss 2.31\nstep 20 loss 2.20\n"),)

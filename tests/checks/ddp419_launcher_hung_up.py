"""Logs: SIGHUP at the launcher; SIGTERM is another story."""

from tests.checks import Sick
from tests.rank_ends import from_log

FULL_TORCHRUN = r""" 41%|████      | 8120/19800 [5:02:11<7:11:09,  2.21s/it]
W0920 19:10:41.194000 84933 site-packages/torch/distributed/elastic/agent/server/api.py:719] Received 1 death signal, shutting down workers
W0920 19:10:41.195000 84933 site-packages/torch/distributed/elastic/multiprocessing/api.py:900] Sending process 85005 closing signal SIGHUP
W0920 19:10:41.195000 84933 site-packages/torch/distributed/elastic/multiprocessing/api.py:900] Sending process 85006 closing signal SIGHUP
Traceback (most recent call last):
  File "/opt/env/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/env/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/api.py", line 76, in _terminate_process_handler
    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)
torch.distributed.elastic.multiprocessing.api.SignalException: Process 84933 got signal: 1
"""  # noqa: E501 - as libraries write it

SICK = (
    Sick(
        evidence=from_log(FULL_TORCHRUN),
        says="the launcher received SIGHUP (signal 1) and ended the job: its terminal or ssh connection was closed",
    ),
)
HEALTHY = (from_log("step 10 loss 2.31\nstep 20 loss 2.20\n"),)

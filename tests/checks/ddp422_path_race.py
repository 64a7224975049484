"""Logs: paths that another rank made, moved or removed."""

from tests.checks import Sick
from tests.rank_ends import from_log

MAKEDIRS = r"""[rank1]:   File "/home/u/t.py", line 40, in <module>
[rank1]:     os.makedirs(args.out)
[rank1]:   File "<frozen os>", line 225, in makedirs
[rank1]: FileExistsError: [Errno 17] File exists: '/data/exp/run7'
"""
RMTREE = r"""[rank3]:   File "/opt/env/lib/python3.11/shutil.py", line 681, in _rmtree_safe_fd
[rank3]:     os.unlink(entry.name, dir_fd=topfd)
[rank3]: FileNotFoundError: [Errno 2] No such file or directory: 'rng_state_5.pth' -> '/out/checkpoint-900'
"""
NOT_EMPTY = r"""[rank0]: OSError: [Errno 39] Directory not empty: '/out/checkpoint-1200'
"""

SICK = (
    Sick(
        evidence=from_log(MAKEDIRS),
        says="rank 1 met a path that another process had just made: /data/exp/run7",
        ranks=(1,),
        where=("rank 1 /home/u/t.py:40 <module>",),
        measured={"path": "/data/exp/run7"},
    ),
    Sick(
        evidence=from_log(RMTREE),
        says="rank 3 renamed a path that another process had already moved: rng_state_5.pth -> /out/checkpoint-900",
        ranks=(3,),
        measured={"path": "rng_state_5.pth", "target": "/out/checkpoint-900"},
    ),
    Sick(
        evidence=from_log(NOT_EMPTY),
        says="rank 0 met a directory that another process still writes to (Directory not empty): /out/checkpoint-1200",
        ranks=(0,),
        measured={"path": "/out/checkpoint-1200"},
    ),
)
HEALTHY = (from_log("step 10 loss 2.31\nstep 20 loss 2.20\n"),)

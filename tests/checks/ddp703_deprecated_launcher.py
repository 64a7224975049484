"""The old launcher, and the new one."""

from ddpdoctor.templates.launch_scripts import JobSettings, torchrun
from tests.checks import Sick
from tests.launch_files import script

JOB = JobSettings(command=("train.py",))


SICK = (
    Sick(
        evidence=script("python -m torch.distributed.launch --nproc_per_node=8 train.py\n"),
        says="torch.distributed.launch is deprecated, and passes the script a --local-rank option that it may not accept",
        where=("job.sh:1",),
    ),
)
HEALTHY = (script(torchrun(JOB)), script("python -m torch.distributed.run --nproc-per-node 8 train.py\n"))

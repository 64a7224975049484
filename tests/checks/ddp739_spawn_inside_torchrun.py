"""Training programs with DDP739 spawn-inside-torchrun, and healthy ones."""

from dataclasses import replace

from ddpdoctor.evidence import Evidence
from tests.checks import Sick
from tests.launch_files import manifest, script
from tests.training_programs import source

HEAD = "#!/bin/bash\nset -e\n"
POD = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: job
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              image: image
              command: ["torchrun", "--nproc_per_node={ranks}", "train.py"]
              volumeMounts: [{{name: shm, mountPath: /dev/shm}}]
          volumes:
            - name: shm
              emptyDir: {{medium: Memory}}
"""
SPAWNS = """\
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, size):
    dist.init_process_group("gloo", rank=rank, world_size=size)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(4,), nprocs=4)
"""


PROCESSES = SPAWNS.replace(
    "    mp.spawn(work, args=(4,), nprocs=4)\n",
    "    ranks = [mp.Process(target=work, args=(i, 4)) for i in range(4)]\n"
    "    for each in ranks:\n        each.start()\n    for each in ranks:\n        each.join()\n"
    "    raise SystemExit(any(each.exitcode for each in ranks))\n",
)
ELSEWHERE = PROCESSES.replace(
    'init_process_group("gloo", ', 'init_process_group("gloo", init_method=f"tcp://127.0.0.1:{30000 + rank}", '
)
ASKS = (
    SPAWNS.replace("import torch.dist", "import os\n\nimport torch.dist").replace(
        'if __name__ == "__main__":\n',
        'def main():\n    if "RANK" in os.environ:\n        return work(int(os.environ["RANK"]), 4)\n',
    )
    + '\n\nif __name__ == "__main__":\n    main()\n'
)
SEVERAL = SPAWNS.replace("import torch.dist", "import torch\nimport torch.dist").replace(
    "    mp.spawn(work, args=(4,), nprocs=4)\n",
    "    world = torch.cuda.device_count()\n    if world > 1:\n        mp.spawn(work, args=(world,), nprocs=world)\n",
)
MODULE = SPAWNS.replace('if __name__ == "__main__":\n', "def main():\n")
WATCHES = PROCESSES.replace("target=work", "target=print")


def beside(text: str, program: str = SPAWNS) -> Evidence:
    """The program that spawns, and a script that starts it."""
    started = script(text)
    return replace(started, job=(*started.job, *source(train=program).job))


def in_a_pod(ranks: int) -> Evidence:
    """The program that spawns, and a Kubernetes job whose container starts it."""
    started = manifest(POD.format(ranks=ranks))
    return replace(started, job=(*started.job, *source(train=SPAWNS).job))


def module_beside(text: str) -> Evidence:
    """A script that starts a module, which imports the one that spawns."""
    started = script(text)
    program = source(cli='import train\n\nif __name__ == "__main__":\n    train.main()\n', train=MODULE)
    return replace(started, job=(*started.job, *program.job))


CLAIMED_TWICE = (
    "torchrun starts 4 processes of {}, and each of them spawns ranks of its own: the ranks of all of them claim the same "
    "numbers"
)
SICK = (
    Sick(
        evidence=in_a_pod(4),
        says=CLAIMED_TWICE.format("train.py"),
        where=("train.py:12 <module>", "job.yaml:14"),
    ),
    Sick(
        evidence=module_beside(f"{HEAD}torchrun --standalone --nproc-per-node 4 -m cli --epochs 3\n"),
        says=CLAIMED_TWICE.format("cli.py"),
        where=("train.py:12 main", "job.sh:3"),
    ),
    Sick(
        evidence=beside(f"{HEAD}torchrun --standalone --nproc-per-node 4 train.py\n"),
        says=CLAIMED_TWICE.format("train.py"),
        where=("train.py:12 <module>", "job.sh:3"),
    ),
    Sick(
        evidence=beside(f"{HEAD}torchrun --standalone --nproc-per-node 4 train.py\n", SEVERAL),
        says=CLAIMED_TWICE.format("train.py"),
        where=("train.py:15 <module>", "job.sh:3"),
    ),
    Sick(
        evidence=beside(f"{HEAD}torchrun --standalone --nproc-per-node 4 train.py\n", PROCESSES),
        says=CLAIMED_TWICE.format("train.py"),
        where=("train.py:12 <module>", "job.sh:3"),
    ),
)
HEALTHY = (
    in_a_pod(1),
    beside(f"{HEAD}python train.py\n"),
    beside(f"{HEAD}torchrun --standalone --nproc-per-node 1 train.py\n"),
    beside(f"{HEAD}torchrun --standalone --nproc-per-node 4 train.py\n", WATCHES),
    beside(f"{HEAD}torchrun --standalone --nproc-per-node 4 train.py\n", SEVERAL.replace("world > 1", "world > 8")),
    beside(f"{HEAD}torchrun --standalone --nproc-per-node 4 train.py\n", ELSEWHERE),
    beside(f"{HEAD}torchrun --standalone --nproc-per-node 4 train.py\n", ASKS),
)

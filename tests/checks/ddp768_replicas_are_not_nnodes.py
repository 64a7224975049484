"""Another number of pods than torchrun waits for, and the same."""

from ddpdoctor.templates.launch_scripts import JobSettings, k8s
from tests.checks import Sick
from tests.launch_files import manifest

JOB = k8s(JobSettings(command=("train.py",), image="trainer")).replace(
    '"${torchrun[@]}" --nproc-per-node 1 -m ddpdoctor net', "true"
)
PODS = """kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master:
      template: &pod
        spec:
          hostIPC: true
          containers:
          - name: pytorch
            command: [torchrun, --nnodes=4, --nproc-per-node=8, train.py]
    Worker:
      replicas: 3
      template: *pod
"""
WAITS = "--nnodes is 4, and the manifest starts 3 pods"

JOB_SET = """apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
spec:
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        parallelism: 4
        template:
          spec:
            hostIPC: true
            containers:
            - name: pytorch
              command: [bash, -c, "torchrun --nnodes 2 --node-rank $JOB_COMPLETION_INDEX --nproc-per-node 8 train.py"]
"""

SICK = (
    Sick(
        evidence=manifest(JOB_SET),
        says="--nnodes is 2, and the manifest starts 4 pods",
        where=("job.yaml:15",),
        measured={"nnodes": 2, "pods": 4},
    ),
    Sick(
        evidence=manifest(JOB.replace("parallelism: 2", "parallelism: 4")),
        says="--nnodes is 2, and the manifest starts 4 pods",
        where=("job.yaml:35",),
        measured={"nnodes": 2, "pods": 4},
    ),
    Sick(
        evidence=manifest(PODS.replace("replicas: 3", "replicas: 2")),
        says=WAITS,
        where=("job.yaml:10",),
        measured={"nnodes": 4, "pods": 3},
    ),
)
HEALTHY = (
    manifest(
        'num_nodes: 2\nrun: |\n  if [ "$SKYPILOT_NODE_RANK" == 0 ]; then torchrun --nnodes=1 prepare.py; fi\n'
        "  torchrun --nnodes=$SKYPILOT_NUM_NODES --node-rank=$SKYPILOT_NODE_RANK --master-addr $FIRST train.py\n"
    ),
    manifest(
        "num_nodes: 2\nrun: |\n  torchrun --nnodes=1 prepare.py\n"
        "  torchrun --nnodes=2 --node-rank=$SKYPILOT_NODE_RANK --master-addr $FIRST train.py\n"
    ),
    manifest(JOB_SET.replace("parallelism: 4", "parallelism: 2")),
    manifest(JOB),
    manifest(PODS),
    manifest(PODS.replace("nnodes=4", "nnodes=2:8").replace("replicas: 3", "replicas: 1")),
    manifest(PODS.replace("replicas: 3", "replicas: ${WORKERS}")),
)

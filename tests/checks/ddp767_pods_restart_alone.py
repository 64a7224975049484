"""Jobs whose pods come back alone, and jobs that fail as a whole."""

from ddpdoctor.templates.launch_scripts import JobSettings, k8s
from tests.checks import Sick
from tests.launch_files import manifest

JOB = k8s(JobSettings(command=("train.py",), image="trainer"))
PODS = """kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master: &pod
      restartPolicy: OnFailure
      template:
        spec:
          hostIPC: true
          containers:
          - name: pytorch
            command: [torchrun, --nproc-per-node=8, train.py]
    Worker: *pod
"""

SICK = (
    Sick(
        evidence=manifest(JOB.replace("  backoffLimit: 0", "  backoffLimit: 4")),
        says="backoffLimit is 4: a pod that failed comes back alone, without its 1 peer",
        where=("job.yaml:11",),
        measured={"pods": 2},
    ),
    Sick(
        evidence=manifest(PODS),
        says="restartPolicy is OnFailure, and there is no backoffLimit: a pod that failed comes back alone, without its 1 peer",
        where=("job.yaml:1",),
        measured={"pods": 2},
    ),
)
HEALTHY = (
    manifest(JOB),
    manifest(PODS.replace("OnFailure", "Never")),
    manifest(PODS.replace("spec:\n  py", "spec:\n  elasticPolicy: {maxRestarts: 3}\n  py", 1)),
    manifest(
        JOB.replace("  backoffLimit: 0", "  backoffLimit: 4")
        .replace("parallelism: 2", "parallelism: 1")
        .replace("--nnodes 2", "--nnodes 1")
    ),
)

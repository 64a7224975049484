"""Containers with the default shared memory, and with enough."""

from ddpdoctor.model import Severity
from ddpdoctor.templates.launch_scripts import JobSettings, k8s
from tests.checks import Sick
from tests.launch_files import manifest, script

POD = """kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master:
      template:
        spec:
          containers:
          - name: pytorch
            command: [torchrun, --nproc-per-node=8, train.py]
            resources: {limits: {nvidia.com/gpu: 8}}
"""
MOUNTED = POD.replace(
    "          containers:", "          volumes: [{name: shm, emptyDir: {medium: Memory}}]\n          containers:"
) + ("            volumeMounts: [{name: shm, mountPath: /dev/shm}]\n")
COMPOSE = """services:
  train:
    image: trainer
    command: torchrun --standalone --nproc-per-node 2 train.py
    shm_size: 256m
"""
MERGED = """x-small: &small
  shm_size: 256m
x-gpus: &gpus
  shm_size: 8g
  image: trainer
services:
  train:
    <<: [*small, *gpus]
    command: torchrun --standalone --nproc-per-node 2 train.py
"""

SICK = (
    Sick(
        evidence=script(
            "docker run -itd --privileged --name deepspeed -w /opt/python -v $PWD:/w image bash -c "
            "'torchrun --nproc-per-node 2 train.py --ipc host'\n"
        ),
        says="docker run gives the container the default, 64 MiB of /dev/shm",
        where=("job.sh:1",),
        measured={"size_bytes": 64 << 20},
    ),
    Sick(
        evidence=script("docker run --rm --shm-size 512m $IMAGE torchrun --nproc-per-node 2 train.py\n"),
        says="docker run gives the container 512 MiB of /dev/shm",
        where=("job.sh:1",),
        measured={"size_bytes": 512 << 20},
    ),
    Sick(
        evidence=script("docker run --rm --gpus all -v $PWD:/w $IMAGE torchrun --nproc-per-node 2 train.py\n"),
        says="docker run gives the container the default, 64 MiB of /dev/shm",
        where=("job.sh:1",),
        measured={"size_bytes": 64 << 20},
    ),
    Sick(
        evidence=manifest(POD),
        says="pytorch has the default, 64 MiB of /dev/shm",
        where=("job.yaml:8",),
        measured={"size_bytes": 64 << 20},
    ),
    Sick(
        evidence=manifest(MOUNTED.replace("medium: Memory", "medium: Memory, sizeLimit: 512Mi")),
        says="pytorch has 512 MiB of /dev/shm",
        where=("job.yaml:7",),
        measured={"size_bytes": 512 << 20},
    ),
    Sick(
        evidence=manifest(COMPOSE),
        says="train has 256 MiB of /dev/shm",
        where=("job.yaml:5",),
        measured={"size_bytes": 256 << 20},
    ),
    Sick(
        evidence=manifest(MERGED),
        says="train has 256 MiB of /dev/shm",
        where=("job.yaml:2",),
        measured={"size_bytes": 256 << 20},
    ),
    Sick(
        evidence=manifest(POD.replace("=8", "=1").replace("gpu: 8", "gpu: 1")),
        says="pytorch has the default, 64 MiB of /dev/shm",
        where=("job.yaml:8",),
        measured={"size_bytes": 64 << 20},
        severity=Severity.INFO,
    ),
)
HEALTHY = (
    *(
        script(f"docker run {options} torchrun --nproc-per-node 2 train.py\n")
        for options in (
            "--rm $DOCKER_OPTS my/image",
            "-it ${EXTRA} --name job image",
            '--privileged "$@" image',
            '--gpus all "$@"',
            "--rm --init $(cat docker.options) image",
            '--rm "${OPTS[@]}" image',
            "-d $ARGS",
            "--name deepspeed -w /opt/python --shm-size=16g image",
            "-itw /opt/bash --shm-size 16g image bash -c",
            "-it -v $VOLUMES image",
            "-v /dev/shm:/dev/shm image",
            "--shm-size $SIZE image",
        )
    ),
    script("docker run --entrypoint torchrun --shm-size=16g image --nproc-per-node=8 train.py\n"),
    script("podman run --shm-size=0 image torchrun --nproc-per-node 2 train.py\n"),
    script("podman run --pod trainers image torchrun --nproc-per-node 2 train.py\n"),
    script("docker run --gpus all --shm-size 16G image torchrun --nproc-per-node 2 train.py\n"),
    script("docker run --gpus all --ipc=host image torchrun --nproc-per-node 2 train.py\n"),
    script("docker run $OPTIONS image torchrun --nproc-per-node 2 train.py\n"),
    script("docker exec box torchrun --nproc-per-node 2 train.py\n"),
    manifest(MOUNTED),
    manifest(MOUNTED.replace("medium: Memory", "medium: Memory, sizeLimit: 16Gi")),
    manifest(POD.replace("          containers:", "          hostIPC: true\n          containers:")),
    manifest(COMPOSE.replace("256m", "8gb")),
    manifest(COMPOSE.replace("shm_size: 256m", "ipc: host")),
    manifest(MERGED.replace("*small, *gpus", "*gpus, *small")),
    manifest(MERGED.replace("    <<: [*small", "    shm_size: 8g\n    <<: [*small")),
    manifest("services:\n  web:\n    image: nginx\n"),
    manifest(k8s(JobSettings(command=("train.py",), image="trainer"))),
)

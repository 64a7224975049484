"""What the fuzzer draws for `lint` and the other commands of a project: notebooks, settings, manifests, baselines, old cases."""

from __future__ import annotations

import io
import json
import random
import tarfile
import zipfile
from typing import Any

from ddpdoctor.workflows.lint_baseline import SCHEMA
from tests.fuzz.inputs import ESCAPES, NUMBERS, Input, mutated, odd, saved_case

SICK = "import torch, torch.distributed as dist\ndist.init_process_group('nccl')\nif dist.get_rank() == 0:\n    dist.barrier()\n"
FORMS = ((), ("--format", "json"), ("--format", "sarif"), ("--format", "github"), ("-v",), ("--diff",))
MANIFEST: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "ddp"},
    "spec": {
        "nprocPerNode": "8",
        "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4, "rdzvBackend": "c10d"},
        "pytorchReplicaSpecs": {
            name: {
                "replicas": 2,
                "restartPolicy": "OnFailure",
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "pytorch",
                                "image": "x",
                                "command": ["torchrun", "--nnodes", "2", "--nproc-per-node=8", "train.py"],
                                "env": [
                                    {"name": "MASTER_ADDR", "value": "localhost"},
                                    {"name": "NCCL_DEBUG", "value": "INFO"},
                                ],
                                "resources": {"limits": {"nvidia.com/gpu": 8, "memory": "64Gi"}},
                                "ports": [{"containerPort": 23456}],
                            }
                        ],
                        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
                    }
                },
            }
            for name in ("Master", "Worker")
        },
    },
}
CELLS = (SICK, "!torchrun --nproc-per-node 8 t.py\n", "%%bash\ntorchrun t.py\n", "%load x\n", "x = 1", "")
SETTINGS = ("lint", "diagnose", "watch", "env", "net", "hang", "top", "nothing", "")
KEYS = (
    "ignore",
    "select",
    "exclude",
    "format",
    "verbose",
    "output",
    "fail-on",
    "per-file-ignores",
    "case",
    "baseline",
    "x\n",
)


def notebook(draw: random.Random) -> Input:
    """A notebook with cells of code, magics and whatever else JSON can hold."""
    cells = []
    for _ in range(draw.randrange(6)):
        text = draw.choice(CELLS)
        source = text if draw.random() < 0.5 else text.splitlines(keepends=True)
        kind = draw.choice(("code", "code", "markdown", "raw"))
        cells.append({"cell_type": kind, "metadata": {}, "outputs": [], "source": source})
    document = odd(draw, {"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {"language": "python"}}, 0.03)
    content = json.dumps(document).encode("utf-8", "surrogatepass")
    return Input(
        ("lint", ".", *draw.choice(FORMS)), {"t.ipynb": mutated(draw, content) if draw.random() < 0.4 else content}
    )


def settings(draw: random.Random) -> Input:
    """A pyproject.toml, beside a program, a log, and a command that reads it."""
    values = (
        "[]",
        "['DDP3']",
        "true",
        "1",
        "{}",
        "'text'",
        "[[1]]",
        "{a = 1}",
        "1979-05-27",
        "inf",
        "nan",
        "'x'",
        '"\\u202e"',
    )
    lines = []
    for _ in range(draw.randrange(1, 5)):
        opens, closes = draw.choice((("[", "]"), ("[", "]"), ("[", "]"), ("[[", "]]")))
        lines.append(
            f"{opens}{draw.choice(('tool.ddpdoctor.', 'tool.ddpdoctor', 'tool.'))}{draw.choice(SETTINGS)}{closes}"
        )
        lines += [
            f"{json.dumps(draw.choice(KEYS))} = {draw.choice((*values, *values, *NUMBERS, json.dumps(draw.choice(ESCAPES))))}"
            for _ in range(draw.randrange(4))
        ]
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    command = draw.choice((("lint", "."), ("diagnose", "job.log"), ("config",), ("config", "lint"), ("checks",)))
    return Input(
        command,
        {
            "pyproject.toml": mutated(draw, content) if draw.random() < 0.3 else content,
            "t.py": SICK.encode(),
            "job.log": b"[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: x\n",
        },
    )


def manifest(draw: random.Random) -> Input:
    """A manifest of Kubernetes, in YAML or in JSON, which is YAML too."""
    document = odd(draw, MANIFEST, 0.02)
    content = json.dumps(document, indent=draw.choice((None, 1))).encode()
    if draw.random() < 0.5:
        import yaml

        content = yaml.safe_dump_all([document] * draw.choice((1, 1, 3))).encode()
    content = mutated(draw, content) if draw.random() < 0.6 else content
    return Input(("lint", ".", *draw.choice(FORMS[:5])), {"job.yaml": content})


def baseline(draw: random.Random) -> Input:
    """A baseline of `lint`, beside a program with the findings that it names."""
    entries = [
        {
            "code": draw.choice(("DDP730", "x")),
            "file": "t.py",
            "text": "dist.barrier()",
            "count": draw.choice((1, 2, -1)),
        }
        for _ in range(draw.randrange(4))
    ]
    document = odd(draw, {"schema": SCHEMA, "findings": entries}, 0.05)
    content = json.dumps(document).encode()
    if draw.random() < 0.3:
        content = content.replace(b'"count": 1', b'"count": ' + draw.choice(NUMBERS).encode())
    content = mutated(draw, content) if draw.random() < 0.3 else content
    return Input(("lint", ".", "--baseline", "b.json"), {"b.json": content, "t.py": SICK.encode()})


def archive(draw: random.Random) -> Input:
    """A case or a log that somebody packed: ddpdoctor reads no archives, and must say so."""
    drawn, packed = saved_case(draw), io.BytesIO()
    files = {**drawn.files, "job.log": b"[rank1]: ValueError: x\n", "../../escaped": b"x", "/etc/x": b"y"}
    if draw.random() < 0.5:
        with zipfile.ZipFile(packed, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as into:
            for name, content in files.items():
                into.writestr(name, content * draw.choice((1, 30)))
        name = draw.choice(("job.zip", "case.json", "rank_0", "job.log"))
    else:
        with tarfile.open(fileobj=packed, mode=draw.choice(("w", "w:gz", "w:xz"))) as tar:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        name = draw.choice(("job.tar", "job.tar.gz", "case.json", "rank_0"))
    content = packed.getvalue()
    command = draw.choice(
        (("diagnose", name), ("diagnose", "."), ("lint", "."), ("explain", name), ("verify-sync", name, name))
    )
    return Input(command, {name: mutated(draw, content) if draw.random() < 0.5 else content})

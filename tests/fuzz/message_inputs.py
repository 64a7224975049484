"""What the fuzzer draws for readers that have no file of their own: messages of peers and listeners, environments, processes.

Each command line begins with `@` and names a reader of `tests/fuzz/readers.py`.
"""

from __future__ import annotations

import json
import os
import random
from functools import cache
from typing import Any

import msgspec

from ddpdoctor.evidence.bench import CollectiveBench
from ddpdoctor.net.introductions import PROTOCOL
from ddpdoctor.transport.bundle import Bundle, ProcessIdentity
from ddpdoctor.transport.facts import parts_of
from ddpdoctor.workflows.benchmark import SCHEMA
from tests.fuzz.evidence import examples
from tests.fuzz.inputs import ESCAPES, NUMBERS, Input, mutated, odd

NAMES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"),
    *(
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_RESTART_COUNT",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "SLURM_JOB_NODELIST",
        "SLURM_LOCALID",
    ),
    *(
        "SLURM_STEP_TASKS_PER_NODE",
        "SLURM_TASKS_PER_NODE",
        "SLURM_NNODES",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
    ),
    *(
        "PMI_RANK",
        "PMI_SIZE",
        "PMIX_RANK",
        "NCCL_DEBUG",
        "NCCL_RAS_ADDR",
        "NCCL_SOCKET_IFNAME",
        "NCCL_CONF_FILE",
        "NCCL_IB_HCA",
    ),
    *(
        "NCCL_P2P_DISABLE",
        "CUDA_VISIBLE_DEVICES",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
        "TORCH_FR_DUMP_TEMP_FILE",
        "XDG_CACHE_HOME",
    ),
    *("OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "PYTORCH_CUDA_ALLOC_CONF", "TORCH_DISTRIBUTED_DEBUG", "LD_LIBRARY_PATH"),
    *(
        "DDPDOCTOR_FORMAT",
        "DDPDOCTOR_SELECT",
        "COLUMNS",
        "TERM",
        "NO_COLOR",
        "GITHUB_ACTIONS",
        "HOME",
        "TMPDIR",
        "LC_ALL",
    ),
)
VALUES = (
    "0",
    "1",
    "7",
    "29500",
    "localhost",
    "gpu[01-99999999]",
    "gpu[1-",
    "2(x3)",
    "2(x99999999999)",
    "/dev/zero",
    "",
    ",",
    "^lo",
)


def _environment(draw: random.Random) -> bytes:
    words = (*VALUES, *VALUES, *NUMBERS, *ESCAPES, "a" * 5000, "[" * 5000, "\udc80", "/x/" * 500)
    entries = [
        f"{draw.choice(NAMES)}={draw.choice(words)}".replace("\0", "").encode("utf-8", "surrogateescape")
        for _ in range(draw.randrange(1, 20))
    ]
    block = b"\0".join(entries)
    return mutated(draw, block) if draw.random() < 0.3 else block


def environment(draw: random.Random) -> Input:
    """The environment of `env`, of a process of somebody else, or of any command."""
    command = draw.choice((("@environment",), ("@environment",), ("@process",), ("diagnose", "job.log"), ("config",)))
    return Input(
        command,
        {
            ".environ": _environment(draw),
            "job.log": b"[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: x\n",
            "argv": draw.choice(ESCAPES).replace("\0", "").encode() * draw.choice((1, 9, 9000)),
        },
    )


def node_message(draw: random.Random) -> Input:
    """What a node of `net` leaves in the store."""
    introduction = {
        "node": draw.choice((0, 0, 1)), "nodes": 2, "host": "gpu01", "pid": 7, "address": "10.0.0.1", "port": 4000,
        "public": "3" * draw.choice((5, 617, 5000)), "speed_mbit": None, "protocol": PROTOCOL, "facts": _facts(draw),
    }  # fmt: skip
    answers = [{"nodes": [0, 1], "detail": "x", "seconds": 1.0}]
    document = odd(
        draw, draw.choice((introduction, introduction, answers, {"tries": [], "skipped": "", "host": "a"})), 0.03
    )
    content = json.dumps(document).encode()
    return Input(("@node",), {"message": mutated(draw, content) if draw.random() < 0.5 else content})


def _facts(draw: random.Random) -> dict[str, Any]:
    ranks = draw.choice(examples()).ranks
    found = draw.choice(ranks).facts if ranks else ()
    return {type(fact).__name__: json.loads(json.dumps(msgspec.to_builtins(fact, str_keys=True))) for fact in found}


def rank_message(draw: random.Random) -> Input:
    """What a rank tells rank 0 under `env`, `verify-sync` and others: a bundle of facts or files."""
    bundle = Bundle()
    for rank in range(draw.randrange(4)):
        who = ProcessIdentity(
            rank=draw.choice((rank, -1, 1 << 40)),
            world_size=4,
            host=draw.choice(("a", *ESCAPES))[:255],
            pid=1,
            clock="c",
        )
        ranks = draw.choice(examples()).ranks
        facts = draw.choice(ranks).facts if ranks else ()
        parts = {name: [*pieces] for name, pieces in parts_of(facts, (), ()).items()}
        for name in [*parts]:
            if draw.random() < 0.1:
                parts[draw.choice((name, "../../escaped", "/etc/x", "a\0b", ""))] = [
                    mutated(draw, b"".join(parts[name]))
                ]
        bundle.add(who, parts)
    content = bundle.encode()
    return Input(("@rank",), {"message": mutated(draw, content) if draw.random() < 0.5 else content})


def listener(draw: random.Random) -> Input:
    """What listens at a socket of a job, or at NCCL's port, and answers."""
    head = draw.choice(
        (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % draw.choice((5, 0, 1 << 40, -1)), b"HTTP/1.1 100 X\r\n\r\n")
    )
    table = b"Errors\n======\n\nINCOMPLETE\n  Process 4101 on node 10.0.0.2 managing GPU 1\n\nWarnings\n========\n"
    content = head * draw.choice((0, 1, 1, 300)) + mutated(draw, table)
    return Input(("@listener",), {"message": mutated(draw, content) if draw.random() < 0.5 else content})


def comparison(draw: random.Random) -> Input:
    """A saved benchmark for `allreduce-bench --compare`."""
    document = odd(draw, {"schema": SCHEMA, "bench": json.loads(msgspec.json.encode(draw.choice(benches())))}, 0.02)
    content = json.dumps(document).encode()
    return Input(("@comparison", "b.json"), {"b.json": mutated(draw, content) if draw.random() < 0.3 else content})


@cache
def benches() -> tuple[CollectiveBench, ...]:
    """The benchmarks of all examples."""
    return tuple(fact for each in examples() for fact in each.job if isinstance(fact, CollectiveBench))


def environ_of(block: bytes) -> dict[str, str]:
    """The variables of a block as a shell could have set them."""
    pairs = (os.fsdecode(entry).partition("=") for entry in block.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals and name}

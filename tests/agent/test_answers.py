"""What a rank hands out of its flight recorder, and what that costs it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

RANK = """
import sys
import torch
import torch.distributed as dist
from ddpdoctor.agent.inside.answers import recorder_pickle

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(2))
sys.stdout.buffer.write(recorder_pickle())
assert "torch._inductor" not in sys.modules, "the compiler was imported"
assert torch._inductor.__file__, "torch has lost its compiler"
"""


def test_a_rank_that_compiles_nothing_shows_its_lines_without_importing_the_compiler() -> None:
    environ = {**os.environ, "TORCH_FR_BUFFER_SIZE": "10"}
    ended = subprocess.run([sys.executable, "-c", RANK], env=environ, capture_output=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    (entry,) = pickle.loads(ended.stdout)["entries"]
    assert ("<module>", 8) in {(frame["name"], frame["line"]) for frame in entry["frames"]}

"""DDP102 torch-builds-differ."""

from __future__ import annotations

from ddpdoctor.evidence.torch_build import TorchBuild
from tests.checks import Sick, ranks


def torch(version: str, git: str = "cf30153c4c131c81") -> TorchBuild:
    return TorchBuild(version=version, git_version=git, distributed=True, backends=("gloo",))


SICK = (
    Sick(
        evidence=ranks(torch("2.13.0"), torch("2.12.1", "0a1b2c3d4e5f"), torch("2.13.0")),
        says="torch is 2.13.0 (cf30153c) on ranks 0,2, 2.12.1 (0a1b2c3d) on rank 1",
        ranks=(1,),
        measured={"builds": {"2.13.0 (cf30153c)": [0, 2], "2.12.1 (0a1b2c3d)": [1]}},
    ),
)
HEALTHY = (ranks(torch("2.13.0"), torch("2.13.0")),)

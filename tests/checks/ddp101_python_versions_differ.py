"""DDP101 python-versions-differ."""

from __future__ import annotations

from ddpdoctor.evidence.host import PythonInstall
from tests.checks import Sick, ranks


def python(version: str) -> PythonInstall:
    return PythonInstall(version=version, executable="/opt/venv/bin/python")


SICK = (
    Sick(
        evidence=ranks(python("3.11.7"), python("3.11.7"), python("3.10.12"), python("3.11.7")),
        says="Python is 3.11 on ranks 0-1,3, 3.10 on rank 2",
        ranks=(2,),
        measured={"versions": {"3.11": [0, 1, 3], "3.10": [2]}},
    ),
    Sick(
        evidence=ranks(python("3.11.7"), python("3.12.1")),
        says="Python is 3.11 on rank 0, 3.12 on rank 1; no majority: either side may be at fault",
        ranks=(0, 1),
        measured={"versions": {"3.11": [0], "3.12": [1]}},
    ),
)
HEALTHY = (ranks(python("3.11.7"), python("3.11.9")),)

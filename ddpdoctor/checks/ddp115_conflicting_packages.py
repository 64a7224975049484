"""Two installed packages provide the same module or library.

The package that was installed last wins, silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from ddpdoctor.analysis.launch.version_numbers import version_numbers
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import PythonInstall
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP115",
    name="conflicting-packages",
    summary="two installed packages provide the same module or library",
    severity=Severity.WARN,
    remedy="uninstall the named package, then reinstall the other one: their files overwrite each other",
    background=True,
)

FILES_SINCE = 12  # from 12 on `pynvml` is an empty shell that depends on nvidia-ml-py


def check(pythons: PerRank[PythonInstall]) -> Iterator[Finding]:
    """One finding per host and pair: two providers of the module pynvml, or NCCL wheels for two versions of CUDA."""
    for host in pythons.hosts():
        packages = host.value.packages
        for one, other, shared in _pairs(packages):
            yield RULE.finding(
                f"{host.host} has {one} {packages[one]} and {other} {packages[other]}: both provide {shared}",
                hosts=(host.host,),
                ranks=host.ranks,
                remedy=f"`pip uninstall {one}`, then `pip install --force-reinstall --no-deps {other}`",
            )


def _pairs(packages: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """(the one that should go, the one that should stay, what both bring)."""
    if "nvidia-ml-py" in packages:
        if "nvidia-ml-py3" in packages:
            yield "nvidia-ml-py3", "nvidia-ml-py", "the module pynvml"
        old = packages.get("pynvml", "")
        if old and () < version_numbers(old) < (FILES_SINCE,):
            yield "pynvml", "nvidia-ml-py", "the module pynvml"
    wheels = [name for name in ("nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13") if name in packages]
    for older, newer in pairwise(wheels):
        yield older, newer, "nvidia/nccl/lib/libnccl.so.2"

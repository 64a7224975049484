"""CUDA_VISIBLE_DEVICES lists a GPU twice, a GPU that does not exist, or no GPU.

CUDA stops reading the list at the first name that it does not know, without a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.evidence.host import Environment
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck
from ddpdoctor.whole_numbers import whole_number

RULE = Rule(
    code="DDP126",
    name="cuda-visible-devices-wrong",
    summary="CUDA_VISIBLE_DEVICES lists a GPU twice, a GPU that does not exist, or no GPU",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor env` on the host compares CUDA_VISIBLE_DEVICES with the GPUs that exist",
    remedy="list each GPU of the host once, such as `CUDA_VISIBLE_DEVICES=0,1,2,3`, or unset it",
    explains=(
        "DDP125",
        "DDP401",
    ),
    background=True,
    errors=(
        ErrorPattern(
            regex=r"changing env variable CUDA_VISIBLE_DEVICES after program start",
            sentence="CUDA found no usable device{on}: CUDA_VISIBLE_DEVICES was changed after the program start, or is wrong",
            remedy="set CUDA_VISIBLE_DEVICES before Python starts, and list each GPU of the host once",
        ),
    ),
)

NAME = "CUDA_VISIBLE_DEVICES"


def check(environments: PerRank[Environment], gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding per rank whose list is wrong; a list that hides every GPU is a warning, since it may be meant."""
    counts = {host.host: host.value for host in gpus.hosts()}
    if not any(NAME in entry.value.variables for entry in environments):
        raise SkipCheck(f"{NAME} is not set")
    for entry in environments:
        value = entry.value.variables.get(NAME)
        if value is None or entry.host not in counts:
            continue
        wrong, severity = _wrong(value, counts[entry.host])
        if wrong:
            ranks = (entry.rank,) if environments.launched else ()
            yield RULE.finding(
                f"{NAME}={value} on {entry.host} {wrong}",
                severity=severity,
                ranks=ranks,
                hosts=(entry.host,),
                value=value,
            )


def _wrong(value: str, gpus: Gpus) -> tuple[str, Severity]:
    names = [name.strip() for name in value.split(",")]
    if names in ([""], ["-1"], ["NoDevFiles"]):
        return f"hides all {len(gpus.gpus)} GPUs", Severity.WARN
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        return f"lists GPU {repeated} twice", Severity.FAIL
    for name in names:
        if name.startswith("MIG-"):
            continue
        number = whole_number(name)
        known = number is not None and number < len(gpus.gpus)
        if not known and not any(
            gpu.uuid and name.startswith("GPU-") and gpu.uuid.startswith(name) for gpu in gpus.gpus
        ):
            return f"lists {name}, but the host has GPUs 0-{len(gpus.gpus) - 1}", Severity.FAIL
    return "", Severity.FAIL

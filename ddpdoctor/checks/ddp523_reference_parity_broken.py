"""N ranks of the reference job do not compute what one process computes over the same samples."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence.training import Gate, ParityRun
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP523",
    name="reference-parity-broken",
    summary="N ranks of the reference job do not compute what one process computes",
    severity=Severity.FAIL,
    remedy="compare with `ddpdoctor train --parity --backend gloo`, which does not use the links between GPUs: if that "
    "passes, suspect NCCL, the driver or a GPU, else torch itself; in your own job, look for the mistake that is named",
)


def check(run: ParityRun) -> Iterator[Finding]:
    """One finding with every gate that failed; the signature says which mistake gives such a gradient."""
    failed = [gate for gate in run.gates if not gate.passed]
    if failed:
        first, count = failed[0], len(failed)
        others = f", and {count - 1} more of {len(run.gates)} comparisons fail" if count > 1 else ""
        yield RULE.finding(
            f"{run.world_size} {run.backend} ranks diverge from the single-process run: {_says(first)}{others}",
            ranks=range(run.world_size),
            details=([f"it looks like {run.signature}"] if run.signature else [])
            + [_says(gate) for gate in failed[1:]],
            failed={gate.name: gate.measured for gate in failed},
        )


def _says(gate: Gate) -> str:
    if gate.allowed == 0 and gate.measured is not None:
        return f"{gate.name}: {gate.measured:.0f} ranks differ"
    away = "not a finite number" if gate.measured is None else f"{gate.measured:.1e}"
    return f"{gate.name}: {away} (allowed: {gate.allowed:.0e})"

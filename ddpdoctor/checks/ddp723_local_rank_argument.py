"""DDP723: a program expects the launcher to pass --local_rank, which torchrun does not."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP723",
    name="local-rank-argument",
    summary="a program takes its local rank from --local_rank and never from LOCAL_RANK, which is all that torchrun gives",
    severity=Severity.FAIL,
    remedy='read it from the environment: `local_rank = int(os.environ["LOCAL_RANK"])`',
    leads_to=("DDP415", "DDP218"),
)
_OPTIONS = ("--local_rank", "--local-rank")
_PASS_IT = ("deepspeed", "accelerate", "transformers", "lightning", "fabric", "megatron", "colossalai", "sagemaker")
_STARTS = ("spawn", "start_processes", "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each program that declares the option and reads no variable instead."""
    for module in graph.modules.values():
        for option in module.options:
            if option.name not in _OPTIONS or option.overwritten or not module.functions:
                continue
            if graph.any_program(module.functions[0], (*_PASS_IT, *_STARTS)):
                continue
            default = next((origin.text for origin in option.default.origins), "None")
            yield code_finding(
                RULE,
                f"{option.name} is never given by torchrun, and nothing reads LOCAL_RANK: {_outcome(default)}",
                option.place,
                remedy=f'give the option a default that torchrun sets: `default=int(os.environ.get("LOCAL_RANK", {default}))`',
                measured={"default": default},
            )
            break


def _outcome(default: str) -> str:
    if default.startswith("-"):
        return f"every rank keeps {default} and runs as a job of its own"
    if default == "None":
        return "every rank gets None"
    return f"every rank uses device {default}"

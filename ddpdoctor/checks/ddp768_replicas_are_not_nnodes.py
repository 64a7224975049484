"""DDP768: a manifest starts another number of pods than torchrun waits for."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScripts, place
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP768",
    name="replicas-are-not-nnodes",
    summary="a manifest starts another number of pods than --nnodes says",
    severity=Severity.FAIL,
    remedy="make both the same: `--nnodes` is the sum of the replicas of Master and Worker, `parallelism` of a Job, `numNodes` "
    "of a TrainJob, or `num_nodes` of SkyPilot",
    leads_to=("DDP205", "DDP207"),
)


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each torchrun in a pod whose --nnodes is not the number of pods."""
    for pods in launch.manifests:
        replicas = [container.replicas for container in pods.manifest.containers]
        if pods.manifest.kind in {"compose", "MPIJob"} or pods.manifest.elastic or not replicas:
            continue
        total = sum(each or 0 for each in replicas)
        for _, starts in pods.torchruns:
            if any(start.options.number("nnodes") == total for start in starts):
                continue  # the others prepare something on each node
            for start in starts:
                wanted = start.options.number("nnodes")
                single = ":" not in start.options.values.get("nnodes", "")
                if start.always and wanted is not None and single and None not in replicas and wanted != total:
                    yield RULE.finding(
                        f"--nnodes is {wanted}, and the manifest starts {total} {pods.unit if total == 1 else pods.unit + 's'}",
                        where=[place(pods.manifest.path, start.line)],
                        nnodes=wanted,
                        pods=total,
                    )

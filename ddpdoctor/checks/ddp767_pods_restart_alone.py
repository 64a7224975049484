"""DDP767: Kubernetes starts a pod that failed again, while its peers still run or are gone."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScripts, Pods, place
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP767",
    name="pods-restart-alone",
    summary="a pod that fails is started again by itself, and waits for ranks that are gone",
    severity=Severity.INFO,
    remedy="set `backoffLimit: 0` and `restartPolicy: Never`, so that the job fails as a whole; or let torchrun restart all "
    "ranks, with `elasticPolicy` in a PyTorchJob",
    leads_to=("DDP205",),
)
_DEFAULT_RETRIES = 6  # of batch/v1 Job


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each job of several pods in which Kubernetes restarts single ones."""
    for pods in launch.manifests:
        total = sum(container.replicas or 1 for container in pods.manifest.containers)
        if total > 1 and (message := _restarts(pods)) and _runs_ranks(pods):
            yield RULE.finding(
                f"{message}: a pod that failed comes back alone, without its {total - 1} "
                f"{'peer' if total == 2 else 'peers'}",
                where=[place(pods.manifest.path, pods.manifest.line)],
                pods=total,
            )


def _runs_ranks(pods: Pods) -> bool:
    """Whether the pods are ranks of one job: those of a PyTorchJob always are."""
    return pods.manifest.kind == "PyTorchJob" or any(starts for _, starts in pods.torchruns)


def _restarts(pods: Pods) -> str:
    manifest = pods.manifest
    if manifest.kind == "Job" and manifest.backoff_limit != 0:
        given = manifest.backoff_limit
        return f"backoffLimit is {_DEFAULT_RETRIES} by default" if given is None else f"backoffLimit is {given}"
    policies = {container.restart_policy for container in manifest.containers}
    endless = policies & {"OnFailure", "Always"} if manifest.backoff_limit is None else set()
    if manifest.kind == "PyTorchJob" and not manifest.elastic and endless:
        return f"restartPolicy is {min(endless)}, and there is no backoffLimit"
    return ""

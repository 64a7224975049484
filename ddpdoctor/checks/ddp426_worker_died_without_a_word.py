"""A worker process, pod or container went away, and whoever started it knows no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.messages.known_errors import known_errors
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP426",
    name="worker-died-without-a-word",
    summary="a worker went away, and its launcher does not know why",
    severity=Severity.WARN,
    shown_by="the launcher has only lost the worker: the kernel log, the cgroup or the node's events say why",
    remedy="look at the kernel log of its node (`dmesg -T | grep -iE 'oom|killed|segfault|xid'`), at the memory.events of "
    "its cgroup, at "
    "the events of its pod or node (`kubectl describe`), and at the worker's own stderr (for Ray /tmp/ray/session_latest/logs)",
    explains=("DDP408",),
    errors=(
        ErrorPattern(
            regex=r"The actor died unexpectedly[^\n]{0,80}(?:\n[^\n]{0,200}){1,4}?\n\s{0,8}pid: (?P<pid>\d{1,9})"
            r"(?:\n[^\n]{0,200}){0,3}?\n\s{0,8}ip: (?P<ip>[\w.:]{1,60})",
            sentence="a Ray actor (pid {pid} on {ip}) died, and Ray does not know why",
        ),
        ErrorPattern(
            regex=r"The actor died unexpectedly[^\n]{0,80}(?:\n[^\n]{0,200}){1,4}?\n\s{0,8}pid: (?P<pid>\d{1,9})",
            sentence="a Ray actor (pid {pid}) died, and Ray does not know why",
        ),
        ErrorPattern(
            regex=r"A worker died or was killed while executing[^\n]{0,600}Worker IP address: (?P<ip>[\w.:]{1,60}) [^\n]{0,80}"
            r"Worker PID: (?P<pid>\d{1,9})",
            sentence="a Ray worker (pid {pid} on {ip}) died, and Ray does not know why",
        ),
        ErrorPattern(
            regex=r"ActorDiedError|RayActorError|ActorUnavailableError|The actor (?:died|is dead)|worker process has died",
            sentence="a Ray actor died, and Ray does not know why",
        ),
        ErrorPattern(
            regex=r"WorkerCrashedError|LocalRayletDiedError|NodeDiedError|A worker died or was killed while executing",
            sentence="a Ray worker died, and Ray does not know why",
        ),
        ErrorPattern(
            regex=r"(?P<what>[Ww]orker proc(?:ess)? [\w-]+|Engine core proc [\w-]+) died unexpectedly",
            sentence="{what} died, and its parent does not know why",
        ),
        ErrorPattern(
            regex=r"Engine core initialization failed|EngineDeadError",
            sentence="an engine process died before it could report why",
            wrapper=True,
        ),
        ErrorPattern(
            regex=r"^srun: error: Node failure on (?P<node>[\w.-]{1,80})",
            sentence="Slurm lost node {node}, and ended the job",
            remedy="see why (`sinfo -R`, `scontrol show node NODE`, the kernel log of the node), and start the job again without "
            "it: `sbatch --exclude=NODE`",
        ),
        ErrorPattern(
            regex=r"pod \S+ (?:was deleted|not found)|node .{0,80}(?:NotReady|was (?:lost|low on resource))|"
            r"NodeLost|\bEvicted\b|lost (?:task|container|executor)",
            sentence="a pod or node of the job went away: {words}",
        ),
    ),
)


def check(failures: Failures) -> Iterator[Finding]:
    """What went away. A warning: the log does not show why, and names no rank."""
    for finding in known_errors(RULE, failures):
        yield replace(finding, ranks=(), where=())

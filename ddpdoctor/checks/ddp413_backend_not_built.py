"""The job asked for a backend that this build of torch does not have: of collectives, or of the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.messages.known_errors import known_errors
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP413",
    name="backend-not-built",
    summary="the job asked for a backend that this build of torch does not have",
    severity=Severity.FAIL,
    shown_by="the message names the backend; `python -c 'import torch.distributed as d; print(d.is_nccl_available())'`",
    remedy="install the build of torch for your GPUs (a wheel without `+cpu`), or ask for gloo: init_process_group('gloo')",
    explains=("DDP318", "DDP401", "DDP408"),
    errors=(
        ErrorPattern(
            regex=r"Distributed package doesn't have (?P<backend>\w+) built in",
            sentence="torch was built without {backend}, which the job asked for{on}",
        ),
        ErrorPattern(
            regex=r"use_libuv was requested but PyTorch was buil[dt] without (?P<backend>libuv) support",
            sentence="torch was built without {backend}, with which the store of the rendezvous was asked to work{on}",
            remedy="set USE_LIBUV=0 in the environment of the launcher, as builds of torch for Windows need it",
        ),
        ErrorPattern(
            regex=r"makeDeviceFor(?:Interface|Hostname)\(\): unsupported (?P<backend>gloo) device",
            sentence="this build of torch has no transport of {backend} for this system{on}",
            remedy="install another version of torch: some builds for Windows lack gloo's transport. A job of one process needs "
            "no process group",
        ),
    ),
)


def check(failures: Failures) -> Iterator[Finding]:
    """The backend, and the ranks that asked for it."""
    for finding in known_errors(RULE, failures):
        yield replace(finding, where=finding.where[:1])

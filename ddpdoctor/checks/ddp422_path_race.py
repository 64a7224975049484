"""Several ranks create, rename or delete one path at the same time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.messages.known_errors import known_errors
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

_CACHES = r"(?!.{0,400}(?:torchinductor|\.triton|triton_cache|inductor_cache))"
RULE = Rule(
    code="DDP422",
    name="path-race",
    summary="several ranks create, rename or delete one path at the same time",
    severity=Severity.FAIL,
    shown_by="the path of the message is the same on several ranks, and only some of them fail",
    remedy="let one rank do it (`if dist.get_rank() == 0:`, one on each node where the path is local) and the others wait at a "
    "barrier; or make it harmless: os.makedirs(path, exist_ok=True), a name for each rank, shutil.rmtree(path, "
    "ignore_errors=True)",
    explains=("DDP401",),
    errors=(
        ErrorPattern(
            regex=rf"\[Errno 17\] File exists:{_CACHES} '(?P<path>[^']+)",
            sentence="{who} met a path that another process had just made: {path}",
        ),
        ErrorPattern(  # cut before the path
            regex=r"^FileExistsError: \[Errno 17\] [^']{0,12}$",
            sentence="{who} met a path that another process had just made",
            frames=r"(?:/os\.py|<frozen os>):(?:makedirs|mkdir)$",
            without_stack=False,
        ),
        ErrorPattern(
            regex=rf"\[Errno 39\] Directory not empty:{_CACHES} '(?P<path>[^']+)'(?: -> '(?P<target>[^']+)')?",
            sentence="{who} met a directory that another process still writes to (Directory not empty): {path}",
        ),
        ErrorPattern(
            regex=rf"\[Errno 2\] No such file or directory:{_CACHES} '(?P<path>[^']+)' -> '(?P<target>[^']+)'",
            sentence="{who} renamed a path that another process had already moved: {path} -> {target}",
        ),
        ErrorPattern(
            regex=rf"FileNotFoundError: \[Errno 2\] No such file or directory:{_CACHES} '(?P<path>[^']+)'",
            sentence="{who} met a path that another process had just removed: {path}",
            frames=r"(?:/os\.py|/shutil\.py|<frozen os>):(?:makedirs|rename|renames|replace|_?rmtree\w*|unlink|removedirs|"
            r"copytree|move)$",
            without_stack=False,
        ),
    ),
)


def check(failures: Failures) -> Iterator[Finding]:
    """The rank that came second, the path, and the user's line."""
    for finding in known_errors(RULE, failures, note="here"):
        target = str(finding.measured.get("target") or "")
        message = finding.message
        if target and target not in message:
            message = f"{message} -> {target}"
        yield replace(finding, message=re.sub(r"\s+", " ", message))

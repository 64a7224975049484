"""A file system was full, or a quota used up, when a rank wrote: a checkpoint, a cache, a temporary file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import Failure, unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP420",
    name="disk-full",
    summary="a file system was full or a quota used up when a rank wrote to it",
    severity=Severity.FAIL,
    shown_by="`df -h` and `quota` for the path of the message",
    remedy="free space there (`df -h PATH`, `df -i PATH`, `quota -s`), keep fewer checkpoints, or write to another "
    "file system; what was written last is not complete",
    explains=("DDP401", "DDP403", "DDP408", "DDP418"),
    errors=(
        ErrorPattern(regex=r"No space left on device|\bENOSPC\b|StorageFull"),
        ErrorPattern(regex=r"[Dd]isk quota exceeded|\bEDQUOT\b"),
        ErrorPattern(
            regex=r"PytorchStreamWriter failed writing file|inline_container\.cc:\d+\] \. unexpected pos \d+ vs \d+",
            note="torch.save could not write: most often the file system is full; it does not pass the reason on",
        ),
    ),
)

_PATH = re.compile(r"'(/[^'\n]+)'|(?<![\w.])(/(?:tmp|scratch|home|data|mnt|root|var|workspace)[^\s'\",;:)\]]+)")
_KINDS = (
    (
        "a checkpoint",
        re.compile(
            r"checkpoint|ckpt|save_model|save_pretrained|serialization|StreamWriter|safetensors|optim", re.IGNORECASE
        ),
    ),
    ("a cache", re.compile(r"/\.?cache|cache-|triton|inductor|huggingface", re.IGNORECASE)),
    ("a temporary file", re.compile(r"(?:^|[\s'\"])/tmp\b|tempfile|TMPDIR")),
)


def check(failures: Failures) -> Iterator[Finding]:
    """The ranks, what they wrote, and where, as far as the error shows it. /dev/shm is DDP409."""
    found = [failure for failure in failures.of(RULE.code) if not failure.in_shared_memory]
    if not found:
        return
    first = found[0]
    path = next((match[1] or match[2] for failure in found if (match := _PATH.search(failure.text))), None)
    kind = _kind(first)
    writing = f" while writing {kind}" if kind else ""
    ranks = unique_ranks(found)
    subject = who(found) if ranks else "the job"
    yield RULE.finding(
        f"{subject} found no space{writing}{f' at {path}' if path else ''}: {_line(first)}",
        ranks=ranks,
        where=[where for failure in found for where in failure.where("writes here")],
        details=[first.known.pattern.note] if first.known is not None and first.known.pattern.note else (),
        shown_by_job=True,
        path=path,
        written=kind,
    )


def _kind(failure: Failure) -> str | None:
    stack = "\n".join(
        f"{frame.file} {frame.function}" for frame in (failure.error.stack if failure.error is not None else ())
    )
    return next((name for name, regex in _KINDS if regex.search(failure.text) or regex.search(stack)), None)


def _line(failure: Failure) -> str:
    assert failure.known is not None
    lines = [line.strip() for line in failure.text.splitlines()]
    regex = re.compile(failure.known.pattern.regex)
    return next((line for line in lines if regex.search(line)), lines[0] if lines else "")[:240]

"""Reads what NCCL writes under `NCCL_DEBUG=INFO`, in the layouts of versions 2.18 to 2.31."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.evidence.nccl import NcclLog

MOST_WARNINGS = 6

# [time] host:pid:thread [device] file:line NCCL LEVEL words; the time and the file are not always there
_LINE = re.compile(r"\S{1,200}:\d{1,10}:\d{1,10} \[\d{1,10}\] (?:\S{1,200}:\d{1,10} )?NCCL (INFO|WARN) (.*)")
_VERSION = re.compile(r"NCCL version (\d\S*)")
_RANK = re.compile(r"\bcomm 0x\w+ rank (\d+) n[rR]anks \d+")
_NETWORK = re.compile(r"Using network (\S+)")
_BOOTSTRAP = re.compile(r"Bootstrap ?: Using (?:\[\d+\])?(\S+?):")
_NETWORK_PORTS = re.compile(r"NET/\w+ ?: Using (.*)")
_PORT = re.compile(r"\[\d{1,10}\](\S{1,200}?):")
_CHANNEL = re.compile(r"Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\] (?:\[\w+\] )?via (\S+)")
_DIAGNOSTIC = re.compile(r"NCCL DIAG \[INFO\]\s+(p2p: only \d+/\d+ .*)")


def read_log(text: str) -> NcclLog:
    """What one process wrote."""
    version = _VERSION.search(text)
    rank: int | None = None
    network: str | None = None
    interfaces: list[str] = []
    channels: list[str] = []
    warnings: list[str] = []
    for level, words in _lines(text):
        if level == "WARN":
            warnings.append(words)
        elif found := _RANK.search(words):
            rank = int(found[1])
        elif found := _NETWORK.search(words):
            network = found[1]
        elif found := _BOOTSTRAP.match(words):
            interfaces.insert(0, found[1])
        elif found := _NETWORK_PORTS.match(words):
            interfaces += _PORT.findall(found[1].partition("; OOB")[0])
        elif found := _CHANNEL.match(words):
            channels.append(found[1])
    return NcclLog(
        rank=rank,
        version=version[1] if version else None,
        network=network,
        interfaces=tuple(dict.fromkeys(interfaces)),
        transports=tuple(sorted({channel.partition("/")[0] for channel in channels})),
        warnings=tuple(dict.fromkeys(warnings))[:MOST_WARNINGS],
    )


def failed_diagnostics(stdout: str) -> tuple[str, ...]:
    """What NCCL's active diagnostics (2.31, `NCCL_RUN_DIAGNOSTICS=1`) found wrong between GPUs; they print it on rank 0."""
    return tuple(found[1].strip() for found in map(_DIAGNOSTIC.search, stdout.splitlines()) if found)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if found := _LINE.search(line):
            yield found[1], found[2].strip()

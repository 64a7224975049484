"""The commands, by the modules of `ddpdoctor.cli` that hold them."""

from __future__ import annotations

COMMANDS = (
    "init",
    "lint",
    "allreduce_bench",
    "checks",
    "config",
    "diagnose",
    "env",
    "explain",
    "hang",
    "net",
    "port",
    "smoke",
    "top",
    "train",
    "verify_sync",
    "watch",
)

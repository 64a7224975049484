"""Which kernel this process runs on."""

from __future__ import annotations

from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """The random identifier that the kernel chose at its start, the same for all its processes; None where it is not shown."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None

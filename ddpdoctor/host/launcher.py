"""The launcher that started this process, from its variables."""

from __future__ import annotations

from typing import Any

from ddpdoctor.evidence import Missing
from ddpdoctor.host.host_access import HostAccess


def collect(access: HostAccess) -> list[Any]:
    """`Launch`, or that there is none."""
    return [access.launch or Missing(kind="Launch", reason="no launcher started this process")]

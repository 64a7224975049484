"""Launch scripts and manifests as evidence, read from text as `lint` reads them from files."""

from __future__ import annotations

from collections.abc import Mapping

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.scripts import ProgramFile, ScriptFiles
from ddpdoctor.evidence.variables import KnownNames
from ddpdoctor.source.launch_scripts.manifests import read_manifests
from ddpdoctor.source.launch_scripts.shell import read_script


def script(text: str, *, programs: Mapping[str, str] | None = None, names: KnownNames | None = None) -> Evidence:
    """The script `job.sh`, with the programs that it starts, and what is known of its variables."""
    started = tuple(
        ProgramFile(path=path, text=content, started_by="job.sh") for path, content in (programs or {}).items()
    )
    return Evidence(
        job=(ScriptFiles(scripts=(read_script("job.sh", text),), programs=started, names=names),), launched=False
    )


def manifest(text: str) -> Evidence:
    """The manifest `job.yaml`."""
    return Evidence(job=(ScriptFiles(manifests=tuple(read_manifests("job.yaml", text))),), launched=False)

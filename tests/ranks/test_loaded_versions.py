"""The folder of a rank's torch is whatever its user has mapped: what stands there is neither waited for nor believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ddpdoctor.ranks import loaded_versions
from ddpdoctor.ranks.loaded_versions import versions_of


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("content", "found"), [("__version__ = '2.5'\n", {"torch": "2.5"}), (None, {})])
def test_a_pipe_in_the_place_of_a_version_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, found: dict[str, str]
) -> None:
    (tmp_path / "torch").mkdir()
    file = tmp_path / "torch" / "version.py"
    if content is None:
        os.mkfifo(file)
    else:
        file.write_text(content)
    mapped = f"7f00-7f01 r-xp 00000000 08:01 5 {tmp_path}/torch/lib/libtorch_cpu.so\n"
    monkeypatch.setattr(loaded_versions, "maps_of", lambda _pid: mapped)
    assert versions_of(os.getpid()) == found

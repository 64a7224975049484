"""What a page of docs/findings offers under "Reproduce it" does reproduce it, as far as one machine without a GPU can."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ddpdoctor.catalogue import all_rules
from tests.waiting import PROGRAM_SECONDS

PAGES = Path(__file__).parents[2] / "docs" / "findings"
NAMES = {rule.code: rule.name for rule in all_rules()}
ON_ITS_OWN = re.compile(r"\n## Reproduce it\n\n```\n(.*?--select (DDP\d+).*?)\n```\n", re.DOTALL)
BLOCKS = {
    match[2]: match[1] for page in sorted(PAGES.glob("DDP[12]*.md")) if (match := ON_ITS_OWN.search(page.read_text()))
}
SYSTEMD_ONLY = {code for code, block in BLOCKS.items() if "systemd-run" in block}


@pytest.mark.slow
@pytest.mark.parametrize("code", [code for code in BLOCKS if code not in SYSTEMD_ONLY])
def test_the_page_reproduces_its_finding(code: str, tmp_path: Path) -> None:
    if "unshare" in BLOCKS[code] and os.geteuid() != 0:
        pytest.skip("the page says: as root")
    here = {name: value for name, value in os.environ.items() if not re.match(r"(RANK|WORLD|LOCAL|MASTER|SLURM)", name)}
    ended = subprocess.run(
        ["bash", "-c", BLOCKS[code]],
        cwd=tmp_path,
        env={**here, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert re.search(rf"^(?:FAIL|WARN|INFO) {code} {NAMES[code]}: ", ended.stdout, re.MULTILINE), (
        ended.stdout + ended.stderr
    )


def test_pages_that_need_nothing_are_many() -> None:
    assert len(BLOCKS) > 20, sorted(BLOCKS)

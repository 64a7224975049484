"""Jobs as other people write them, healthy ones: `verify-sync` says nothing about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_verify_sync import verify

TWINS = Path(__file__).with_name("twins")
OFTEN = {"batches_by_length", "gan"}  # the others when somebody asks for the matrix
EXTRAS = {"accelerate_job": "accelerate", "lightning_job": "lightning"}

pytestmark = pytest.mark.timeout(600)


def twins() -> Iterator[Any]:
    for script in sorted(TWINS.glob("*.py")):
        for nproc in (2, 3):
            mark = pytest.mark.slow if script.stem in OFTEN and nproc == 2 else pytest.mark.matrix
            yield pytest.param(script, nproc, id=f"{script.stem}-{nproc}", marks=mark)


@pytest.mark.parametrize(("script", "nproc"), twins())
def test_a_healthy_job_gets_silence(script: Path, nproc: int) -> None:
    if script.stem in EXTRAS:
        pytest.importorskip(EXTRAS[script.stem])
    exit_code, report, stderr = verify("--nproc", str(nproc), "--every", "1", str(script))
    assert [finding["message"] for finding in report["findings"] if finding["severity"] != "info"] == []
    assert (exit_code, report["undecided"], report["notes"]) == (0, [], []), stderr

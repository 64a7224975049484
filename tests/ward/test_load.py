"""On a machine whose cores are busy with other things nothing is called sick that is not, and no fault changes its name."""

from __future__ import annotations

import pytest

from tests.ward.__main__ import REPEATED, main


@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_a_busy_machine_changes_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--repeat", "3", "--nproc", "3", *REPEATED])
    assert code == 0, capsys.readouterr().out

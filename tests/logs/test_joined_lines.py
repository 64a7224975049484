"""Errors that a page shows as running text have the lines again that they were written in; other lines stay as they are."""

from __future__ import annotations

import pytest

from ddpdoctor.logs.joined_lines import separated
from ddpdoctor.logs.tracebacks import HEAD


def test_an_error_of_nccl_has_its_last_error_on_a_line_of_its_own() -> None:
    text = (
        "what():  NCCL error: unhandled system error, NCCL version 2.21.5 ncclSystemError: System call failed. Last error: "
        "socketStartConnect: Connect to 10.0.0.2<45763> failed : Connection refused"
    )
    assert separated(text).split("\n") == [
        "what():  NCCL error: unhandled system error, NCCL version 2.21.5",
        "ncclSystemError: System call failed.",
        "Last error:",
        "socketStartConnect: Connect to 10.0.0.2<45763> failed : Connection refused",
    ]


def test_a_traceback_has_its_frames_code_and_error_back() -> None:
    text = f'{HEAD}: File "a b/t.py", line 4, in <module> main(x) File "t.py", line 2, in main y = d[x] my.pkg.LostError: x: 1'
    assert separated(text).split("\n") == [
        f"{HEAD}:",
        '  File "a b/t.py", line 4, in <module>',
        "    main(x)",
        '  File "t.py", line 2, in main',
        "    y = d[x]",
        "my.pkg.LostError: x: 1",
    ]


@pytest.mark.parametrize(
    "text", ["Last error:", "[rank3]: Last error: ", f"{HEAD}:", '  File "t.py", line 2, in main', "step 1 loss 0.3"]
)
def test_a_line_as_it_was_written_stays(text: str) -> None:
    assert separated(text) == text

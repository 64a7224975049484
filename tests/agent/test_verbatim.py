"""Long digits of a record are written as they are, and what is read is what was written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddpdoctor.agent.inside.trace_writer import SHORT_TEXT, STAND_IN, _encoded, verbatim

LONG = "0123456789abcdef" * SHORT_TEXT


@pytest.mark.parametrize(
    "record",
    [
        [],
        ["Table", 1.5, None, {"näme\n": ['"']}],
        [LONG],
        ["Step", {"of": [LONG, "x", [LONG + "0"]]}, LONG],
        [STAND_IN, LONG, {STAND_IN + '"': LONG}],
        [LONG[:SHORT_TEXT], LONG[: SHORT_TEXT + 1]],
    ],
)
def test_records_are_read_as_they_were(record: Any) -> None:
    def prepared(value: Any) -> Any:
        if isinstance(value, list):
            return [prepared(one) for one in value]
        if isinstance(value, dict):
            return {key: prepared(one) for key, one in value.items()}
        return verbatim(value) if isinstance(value, str) and value.isalnum() and value.isascii() else value

    assert _encoded(prepared(record)) == json.dumps(record)


def test_what_json_does_not_know_is_an_error() -> None:
    with pytest.raises((AttributeError, TypeError)):
        _encoded([object(), verbatim(LONG)])

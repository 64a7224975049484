from __future__ import annotations

from ddpdoctor.grouping import grouped


def test_values_stay_in_order_below_their_key() -> None:
    """Keys come in the order of their first value, and messages that list them do, too."""
    by_value = grouped((value, rank) for rank, value in enumerate("bab"))

    assert list(by_value.items()) == [("b", [0, 2]), ("a", [1])]

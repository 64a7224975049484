"""The facts that many objects hold go from one process to another without the names of their fields."""

from __future__ import annotations

import copy
import pickle

from ddpdoctor.evidence.training_code import Kind, Link, Origin, Place, Value
from ddpdoctor.source.training_code import read_texts
from tests.training_programs import GOOD


def test_facts_come_back_as_they_were() -> None:
    """The facts of a whole program are equal after the way between two processes, and as a copy."""
    code = read_texts({"train.py": GOOD})

    assert pickle.loads(pickle.dumps(code, pickle.HIGHEST_PROTOCOL)) == code
    assert copy.deepcopy(code) == code


def test_each_field_keeps_its_value() -> None:
    """No two fields of one type are exchanged, and the state holds values alone."""
    origin = Origin(kind=Kind.RANK, text="RANK", made="a:1:2", note="first", why=(Link(text="x", file="y", line=3),))
    value = Value(text="rank", origins=(origin,))
    place = Place(file="a.py", line=1, column=2, function="main")

    assert pickle.loads(pickle.dumps((value, place), pickle.HIGHEST_PROTOCOL)) == (value, place)
    assert place.__reduce_ex__(pickle.HIGHEST_PROTOCOL)[2] == ("a.py", 1, 2, "main")

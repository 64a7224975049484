"""The objects of which there are many are made and pickled by plain assignments, and are else as those of any dataclass."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace

import pytest

from ddpdoctor.evidence.code_values import Kind, Link, Origin, Value
from ddpdoctor.evidence.many_objects import in_large_numbers
from ddpdoctor.evidence.training_code import Place
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


@in_large_numbers
@dataclass(frozen=True, slots=True)
class Point:
    """Has a field without and one with a default."""

    x: int
    name: str = "origin"


def test_an_object_is_made_as_that_of_any_frozen_dataclass() -> None:
    """By position or by name where the class says so, with its defaults, equal and hashed by its fields."""
    point = Point(3)

    assert (point.x, point.name) == (3, "origin")
    assert point == Point(name="origin", x=3)
    assert hash(point) == hash(Point(3))
    assert replace(point, x=4) == Point(4, "origin")
    assert repr(point) == "Point(x=3, name='origin')"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        Value("rank")  # type: ignore[misc]


def test_no_field_is_looked_up_by_its_name() -> None:
    """`object.__setattr__` for every field takes twice as long, and so does a slot of a class that guards its attributes."""
    assert "__setattr__" not in Origin.__init__.__code__.co_names
    assert Origin.__setattr__ is object.__setattr__

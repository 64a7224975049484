"""What the agent's modules leave out, because each rank of each job pays for it at its start."""

import importlib
import pkgutil
from pathlib import Path
from typing import ForwardRef

from ddpdoctor.agent import inside
from ddpdoctor.agent.inside import schema

NAMES_ITSELF = {"Error"}  # its cause is one


def test_records_have_annotations_that_nobody_compiles() -> None:
    """`typing.NamedTuple` compiles each annotation that is a text: it took a tenth of the start."""
    modules = [
        importlib.import_module(f"{schema.__name__}.{found.name}") for found in pkgutil.iter_modules(schema.__path__)
    ]
    records = {one for module in modules for one in vars(module).values() if hasattr(one, "_fields")}

    compiled = {
        one.__name__ for one in records if any(isinstance(kind, ForwardRef) for kind in one.__annotations__.values())
    }

    assert len(records) > 50
    assert compiled == NAMES_ITSELF


def test_nothing_makes_a_dataclass() -> None:
    """One takes as long as five named tuples, or as reading five modules."""
    (folder,) = map(Path, inside.__path__)

    assert not [file.name for file in folder.rglob("*.py") if "@dataclass" in file.read_text()]

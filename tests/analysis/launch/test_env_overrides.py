"""Only what a program always overwrites counts; guesses and fallbacks are its own business."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.launch.env_overrides import Overwritten, overwritten, sets_unnamed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('import os\nos.environ["MASTER_PORT"] = "29500"', [("MASTER_PORT", "29500", 2)]),
        ('from os import environ\nenviron["RANK"] = environ["SLURM_PROCID"]', [("RANK", "environ['SLURM_PROCID']", 2)]),
        (
            "import os\nos.environ.update(RANK='0',\n  MASTER_ADDR='localhost')",
            [("RANK", "0", 2), ("MASTER_ADDR", "localhost", 3)],
        ),
        ("import os\nos.environ.update({'RANK': '0', **more})", [("RANK", "0", 2)]),
        ("def main():\n    with x:\n        os.environ['A'] = str(1)", [("A", "str(1)", 3)]),
        ("if __name__ == '__main__':\n    os.environ['A'] = '1'", [("A", "1", 2)]),
        ("os.environ.setdefault('MASTER_PORT', '29500')", []),
        ("if 'MASTER_PORT' not in os.environ:\n    os.environ['MASTER_PORT'] = '29500'", []),
        ("try:\n    x()\nexcept KeyError:\n    os.environ['RANK'] = '0'", []),
        ("settings['MASTER_PORT'] = '29500'\nos.environ[name] = '1'", []),
        ("not python (", []),
        ("\0", []),
    ],
)
def test_what_is_overwritten(text: str, found: list[tuple[str, str, int]]) -> None:
    assert overwritten(text) == tuple(Overwritten(*each) for each in found)


def test_what_stands_under_a_test_is_told_apart() -> None:
    """`if rank == 1:`, both branches of it, and what is in a function or block of theirs; a program's start is no test."""
    text = (
        "if rank == 1:\n    os.environ['MASTER_ADDR'] = 'node7'\nelse:\n    with x:\n        os.environ['A'] = '1'\n"
        "if __name__ == '__main__':\n    os.environ['B'] = '2'\n"
    )
    found = [(one.name, one.line, one.conditional) for one in overwritten(text, conditional=True)]

    assert found == [("MASTER_ADDR", 2, True), ("A", 5, True), ("B", 7, False)]
    assert [one.name for one in overwritten(text)] == ["B"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("for name, value in env.items():\n    os.environ[name] = value", (2,)),
        ("def load():\n    os.environ.update(values)", (2,)),
        ("os.environ.update({**values})\nos.environ.update(**values)", (1, 2)),
        ("from dotenv import load_dotenv\nload_dotenv(override=True)", (2,)),
        ("def load_dotenv():\n    os.environ.update(read())\nload_dotenv()", (2,)),
        ("os.environ.update({'A': '1'}, B='2')\nos.environ['A'] = '1'\nvalues[name] = '1'\nvalues.update(more)", ()),
        ("not python (", ()),
    ],
)
def test_lines_that_set_what_the_source_does_not_name(text: str, lines: tuple[int, ...]) -> None:
    assert sets_unnamed(text) == lines


def test_expressions_and_branches_nested_deep_do_not_stop_the_reading() -> None:
    """A chain of calls and an `elif` behind hundreds of others parse, and are deeper than Python's limit of frames."""
    chain = "x" + ".b()" * 170
    branches = "if a:\n    pass\n" + "elif a:\n    pass\n" * 400
    loads = f"{chain}\n{chain}.update(A='1')\nload_dotenv()\ndotenv.load_dotenv()\n"

    assert sets_unnamed(loads) == (3, 4)
    assert overwritten(f"{chain}.update(A='1')\nos.environ['B'] = '2'\n") == (Overwritten("B", "2", 2),)
    assert overwritten(f"os.environ['B'] = {chain}\n{branches}") == ()

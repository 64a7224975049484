"""Whose code a file is."""

from __future__ import annotations

import pytest

from ddpdoctor.evidence.frames import Frame, is_users, runs_users_code, users_frame


@pytest.mark.parametrize(
    "file",
    [
        "/job/train.py", "/job/bin/train", "/home/ada/lib/model.py", "<stdin>", "<ipython-input-3-a1>",
        "/venv/lib/python3.11/site-packages/trainer/loop.py",
        "/venv/lib/python3.11/site-packages/trainer.py", "/usr/lib/python3/dist-packages/trainer/loop.py",
    ],
)  # fmt: skip
def test_the_users_own(file: str) -> None:
    assert is_users(file)


@pytest.mark.parametrize(
    "file",
    [
        "", "<frozen importlib._bootstrap>", "/venv/bin/torchrun", "/usr/lib/python3.11/threading.py",
        "/venv/lib/python3.11/site-packages/accelerate/state.py", "/opt/lib/python3.12/site-packages/torch/functional.py",
        "/venv/lib64/python3.11/site-packages/typing_extensions.py", "/venv/lib/python3.11/site-packages/ddpdoctor/cli/watch.py",
        "/src/pytorch/torch/nn/modules/module.py", "numpy/random/bit_generator.pyx",
    ],
)  # fmt: skip
def test_somebody_elses(file: str) -> None:
    assert not is_users(file)


def stack(*files: str) -> list[Frame]:
    """Innermost first."""
    return [Frame(file=file, line=number, function="run") for number, file in enumerate(files, start=1)]


LIBRARY = "/venv/lib/python3.11/site-packages"
TORCH, FRAMEWORK = f"{LIBRARY}/torch/distributed/distributed_c10d.py", f"{LIBRARY}/transformers/trainer.py"


def test_an_installed_trainer_has_its_line() -> None:
    place = users_frame(stack(TORCH, FRAMEWORK, f"{LIBRARY}/trainer/loop.py", "<frozen runpy>"))

    assert place is not None
    assert place.file == f"{LIBRARY}/trainer/loop.py"


def test_where_only_frameworks_are_left_it_is_the_innermost_of_these() -> None:
    only_frameworks = stack(TORCH, f"{LIBRARY}/accelerate/accelerator.py", FRAMEWORK, "/venv/bin/torchrun")

    place = users_frame(only_frameworks)

    assert place is not None
    assert place.file == f"{LIBRARY}/accelerate/accelerator.py"
    assert not runs_users_code(only_frameworks)
    assert users_frame(stack(TORCH, "<frozen runpy>")) is None

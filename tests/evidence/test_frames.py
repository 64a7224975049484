"""Whose code a file is."""

from __future__ import annotations

import pytest

from ddpdoctor.evidence.frames import is_users


@pytest.mark.parametrize(
    "file", ["/job/train.py", "/job/bin/train", "/home/ada/lib/model.py", "<stdin>", "<ipython-input-3-a1>"]
)
def test_the_users_own(file: str) -> None:
    assert is_users(file)


@pytest.mark.parametrize(
    "file",
    [
        "", "<frozen importlib._bootstrap>", "/venv/bin/torchrun", "/usr/lib/python3.11/threading.py",
        "/venv/lib/python3.11/site-packages/accelerate/state.py", "/src/pytorch/torch/nn/modules/module.py",
    ],
)  # fmt: skip
def test_somebody_elses(file: str) -> None:
    assert not is_users(file)

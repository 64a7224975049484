"""The error of a data loader's worker, which a rank passes on as text."""

from __future__ import annotations

import pytest
import torch

from ddpdoctor.agent.inside.process.exit_hooks import described
from ddpdoctor.ranks.written_errors import error_of


class Broken(torch.utils.data.Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        raise KeyError(index)


def test_the_error_of_a_worker_has_the_line_that_raised_it() -> None:
    with pytest.raises(KeyError) as raised:
        next(iter(torch.utils.data.DataLoader(Broken(), num_workers=1)))
    error = error_of(described(raised.value))
    assert error.message.startswith("Caught KeyError in DataLoader worker process 0.")
    assert error.cause is not None
    assert (error.cause.type, error.cause.message) == ("KeyError", "0")
    assert (error.cause.stack[0].file, error.cause.stack[0].function) == (__file__, "__getitem__")


def test_an_error_that_quotes_none_has_no_cause() -> None:
    assert error_of(described(ValueError("Original Traceback is lost"))).cause is None

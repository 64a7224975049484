"""Options that cannot be followed are refused with the value and what would do."""

from __future__ import annotations

import pytest
from recipe_options import BadOption, parse


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--batch-size", "3"], "--batch-size 3 is smaller than the 4 ranks that share it"),
        (
            ["--batch-size", "64", "--accumulate", "3"],
            "--accumulate 3 does not divide the 16 samples that each of 4 ranks",
        ),
        (["--lr", "nan"], "--lr nan is not a learning rate"),
        (["--lr", "-0.1"], "--lr -0.1 is not a learning rate"),
        (["--lr", "inf"], "--lr inf is not a learning rate"),
        (["--clip-grad", "0"], "--clip-grad 0.0 is not a positive norm"),
        (["--epochs", "0"], "--epochs 0 is not 1 or more"),
        (["--max-steps", "-1"], "--max-steps -1 is not 1 or more"),
        (["--workers", "-1"], "--workers -1 is not 0 or more"),
        (["--checkpoint-every", "-1"], "--checkpoint-every -1 is not 0 or more"),
        (["--weight-decay", "nan"], "--weight-decay nan is not 0 or more"),
        (["--bucket-mb", "0"], "--bucket-mb 0.0 is not a size"),
        (["--dataset", "cifar10", "--model", "digitnet"], "--model digitnet takes grey images of 28x28"),
        (["--resume"], "--resume needs the --checkpoint-dir"),
        (["--download"], "--download needs the --data-dir"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_followed_is_refused(arguments: list[str], says: str) -> None:
    with pytest.raises(BadOption) as caught:
        parse(arguments).checked(4)
    assert says in str(caught.value)


@pytest.mark.parametrize("arguments", [["--dataset", "imagenet"], ["--model", "vgg"], ["--no-such-option"]])
def test_unknown_names_end_with_the_known_ones(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(arguments)
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_batch_is_shared_by_the_ranks_or_given_by_rank() -> None:
    assert parse(["--batch-size", "64"]).samples_a_step(3) == 63
    assert parse(["--batch-per-rank", "32"]).samples_a_step(3) == 96

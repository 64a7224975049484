"""A program whose Trainer runs one process does not train on several ranks, whatever else it names."""

from __future__ import annotations

import pytest

from ddpdoctor.source.training_code import read_texts

PROGRAM = """\
import lightning as L

DEVICES = {devices}

def main(devices=4):
    trainer = L.{cls}({arguments})
    trainer.fit(Net())


main()
"""
ONE = (
    "devices=1",
    'accelerator="gpu", devices="1"',
    'accelerator="cpu", devices=1, strategy="ddp"',
    "devices=[0], num_nodes=1",
    "gpus=1",
    'accelerator="cpu", max_epochs=3',
    "devices=DEVICES",
)
SEVERAL = (
    "devices=2",
    "devices=1, num_nodes=4",
    "devices=[0, 1]",
    'accelerator="cpu", devices=2',
    "devices=devices",
    'accelerator="gpu"',
    "devices=1, **options",
    "",
)


def _programs(arguments: str, cls: str = "Trainer", devices: str = "1") -> int:
    return len(read_texts({"train.py": PROGRAM.format(arguments=arguments, cls=cls, devices=devices)}).programs)


@pytest.mark.parametrize("arguments", ONE)
@pytest.mark.parametrize("cls", ["Trainer", "Fabric"])
def test_one_device_is_one_process(arguments: str, cls: str) -> None:
    """No rule about several ranks speaks."""
    assert _programs(arguments, cls) == 0


@pytest.mark.parametrize("arguments", [*SEVERAL, "devices=DEVICES"])
def test_more_devices_or_an_unknown_number_may_be_several(arguments: str) -> None:
    """So may what another value is added to."""
    assert _programs(arguments, devices="8") == 1


@pytest.mark.parametrize("name", ["TrainerState", "TrainerCallback", "TrainingArguments", "TrainerControl"])
def test_what_stands_beside_a_trainer_is_none(name: str) -> None:
    """A class of transformers whose name only begins like that of the Trainer starts nothing."""
    text = f"from transformers import {name}\n\nstate = {name}()\n"
    assert not read_texts({"train.py": text}).programs

"""DDP309: a breakpoint, or a question (`--how input`), was left in on one rank."""

import os
import sys

from patient import admit

reader, _writer = os.pipe()
sys.stdin = os.fdopen(reader)  # a terminal at which nobody sits


def ask(how: str) -> None:
    """Wait for somebody to type."""
    if how == "input":
        input("The checkpoint exists. Overwrite it? [y/n] ")  # sick input
    else:
        breakpoint()  # noqa: T100 # sick breakpoint


with admit(how="breakpoint") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        if patient.sick_at(step):
            ask(patient.options.how)
        optimizer.step()

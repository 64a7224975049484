"""DDP527: one rank's forward computes other numbers from some step on: a flipped bit (`--how kernel`: another kernel).

The gradients are averaged, so the weights stay equal; `verify-sync --probe-every K` sees it.
"""

from bit_flips import flip
from patient import admit
from torch import Tensor, nn

with admit(how="bit", bit=18, element=7) as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)

    def compute(layer: nn.Linear, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """What the faulty unit makes of the layer's output."""
        if patient.options.how == "kernel":
            return nn.functional.linear(inputs[0].double(), layer.weight.double(), layer.bias.double()).to(output.dtype)
        flip(output, patient.options.element, patient.options.bit)
        return output

    for step, images, labels in patient.batches():
        if patient.sick_at(step):
            model.module.hidden.register_forward_hook(compute)  # sick
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()

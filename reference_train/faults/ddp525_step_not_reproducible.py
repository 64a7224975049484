"""DDP525: a bit of a weight flips inside the optimizer's step.

`--how memory`: between two steps; `--how state`: of the momentum; `--how gradient`: of the averaged gradient.
"""

from bit_flips import flip
from patient import admit

with admit(how="step", bit=18, element=7) as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    weight = model.module.hidden.weight
    how, element, bit = patient.options.how, patient.options.element, patient.options.bit
    for step, images, labels in patient.batches():
        if patient.sick_at(step) and how == "memory":
            flip(weight, element, bit)  # sick
        if patient.sick_at(step) and how == "state":
            flip(optimizer.state[weight]["momentum_buffer"], element, bit)  # sick
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        if patient.sick_at(step) and how == "gradient":
            flip(weight.grad, element, bit)  # sick
        inside = patient.sick_at(step) and how == "step"
        handle = optimizer.register_step_post_hook(lambda *_: flip(weight, element, bit)) if inside else None
        optimizer.step()
        if handle is not None:
            handle.remove()

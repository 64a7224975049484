"""DDP526: one rank receives the result of the gradients' all-reduce with a flipped bit, as from a bad link."""

from bit_flips import flip_after_reduction
from patient import admit

with admit(bit=18, element=7) as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        if patient.sick_at(step):
            flip_after_reduction(model.module.hidden.weight, patient.options.element, patient.options.bit)  # sick
        patient.loss(model, images, labels).backward()
        optimizer.step()

"""DDP510: one rank decides by itself to skip a step, as for a loss that looks wrong."""

from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        if patient.sick_at(step):
            continue  # sick
        optimizer.step()

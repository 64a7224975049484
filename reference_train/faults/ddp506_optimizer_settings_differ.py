"""DDP506: one rank's learning rate is another, as after a schedule that follows a local metric."""

from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        if patient.sick_at(step):
            optimizer.param_groups[0]["lr"] *= 0.1  # sick
        optimizer.step()

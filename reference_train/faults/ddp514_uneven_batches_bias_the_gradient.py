"""DDP514: one rank has batches of half the size, and the loss is a mean."""

from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    size = patient.batch_size // 2 if patient.is_culprit else patient.batch_size  # sick
    for _, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images[:size], labels[:size]).backward()
        optimizer.step()

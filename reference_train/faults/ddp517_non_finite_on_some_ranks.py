"""DDP517: one rank's batch holds a NaN, and the reduction spreads it (`--how empty`: its batch is empty)."""

from patient import admit
from torch.nn import functional as F  # noqa: N812 - everybody's name for it
from train import pixels

with admit(how="nan") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        inputs = pixels(images)
        if patient.sick_at(step):
            if patient.options.how == "nan":
                inputs[0, 0, 3, 4] = float("nan")  # sick
            else:
                inputs, labels = inputs[:0], labels[:0]  # sick
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

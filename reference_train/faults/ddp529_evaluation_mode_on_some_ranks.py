"""DDP529: one rank evaluates, and trains on in evaluation mode.

With `--how wrapper` it sets the mode of the wrapper. With `--how back` it returns to training mode, and with `--how frozen` every
rank keeps its BatchNorm in evaluation mode: no fault.
"""

from patient import admit
from torch import nn

with admit(how="module") as patient:
    network = nn.Sequential(nn.BatchNorm2d(1), patient.network())
    model = patient.wrap(network)
    optimizer = patient.optimizer(model)
    model.train()
    if patient.options.how == "frozen":
        network[0].eval()
    for step, images, labels in patient.batches():
        if patient.sick_at(step) and patient.options.how != "frozen":
            evaluated = model if patient.options.how == "wrapper" else model.module
            evaluated.eval()  # sick
            if patient.options.how == "back":
                evaluated.train()
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()

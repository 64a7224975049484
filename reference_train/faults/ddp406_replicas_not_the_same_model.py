"""DDP406: one rank builds another model, as from a configuration file that was not copied.

`--how layer`: it has one layer more. `--how width`: a layer of it is wider.
"""

from patient import admit
from torch import nn

with admit(how="layer") as patient:
    ill = patient.is_culprit
    wider = ill and patient.options.how == "width"
    network = nn.Sequential(patient.network(), nn.Linear(10, 32 if wider else 16), nn.Linear(32 if wider else 16, 10))
    if ill and patient.options.how == "layer":
        network.append(nn.Linear(10, 10))
    model = patient.wrap(network)  # sick
    optimizer = patient.optimizer(model)
    for _step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()

"""DDP509: one rank writes its weights between two steps.

`--how load` reloads them, `--how element` changes a single one; `--how backward` and `--how data` write them between the backward
and the step, `data` past PyTorch's counters.
"""

import torch
from patient import admit

with admit(how="clamp") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    first = {name: value.clone() for name, value in model.state_dict().items()}
    for step, images, labels in patient.batches():
        if patient.sick_at(step) and patient.options.how not in {"backward", "data"}:
            with torch.no_grad():
                if patient.options.how == "load":
                    model.load_state_dict({name: value * 1.01 for name, value in first.items()})  # sick
                elif patient.options.how == "element":
                    model.module.scores.weight[3, 5] += 1e-6  # sick
                else:
                    model.module.hidden.weight.clamp_(-0.01, 0.01)  # sick
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        if patient.sick_at(step) and patient.options.how == "backward":
            with torch.no_grad():
                model.module.hidden.weight.clamp_(-0.01, 0.01)  # sick
        if patient.sick_at(step) and patient.options.how == "data":
            model.module.hidden.weight.data.clamp_(-0.01, 0.01)  # sick
        optimizer.step()

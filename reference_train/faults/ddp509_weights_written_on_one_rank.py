"""DDP509: one rank writes its weights between two steps (`--how load` reloads them, `--how element` changes a single one)."""

import torch
from patient import admit

with admit(how="clamp") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    first = {name: value.clone() for name, value in model.state_dict().items()}
    for step, images, labels in patient.batches():
        if patient.sick_at(step):
            with torch.no_grad():
                if patient.options.how == "load":
                    model.load_state_dict({name: value * 1.01 for name, value in first.items()})  # sick
                elif patient.options.how == "element":
                    model.module.scores.weight[3, 5] += 1e-6  # sick
                else:
                    model.module.hidden.weight.clamp_(-0.01, 0.01)  # sick
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()

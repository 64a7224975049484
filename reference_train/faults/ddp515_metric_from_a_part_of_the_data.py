"""DDP515: every rank computes the accuracy of its own part, and nobody adds them up."""

import torch
from patient import admit
from train import DIGITS, load, pixels

with admit() as patient:
    test = load(DIGITS, "t10k")
    mine = list(range(patient.rank, len(test), patient.world_size))
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        if step == patient.at_step:
            model.eval()
            with torch.no_grad():
                images, labels = test[mine]
                correct = (model.module(pixels(images)).argmax(1) == labels).float().mean()  # sick
            print(f"accuracy {correct.item():.3f}", flush=True)
            model.train()

"""DDP601: one rank does something of its own at every step, and all others wait for it.

`--how` says where: `input` prepares each batch slowly, `forward` checks the activations, `backward` has a slow hook.
"""

import time

from patient import admit

with admit(how="input", seconds=0.05) as patient:
    network = patient.network()
    if patient.is_culprit and patient.options.how == "backward":
        next(network.parameters()).register_hook(lambda _: time.sleep(patient.options.seconds))  # sick backward
    if patient.is_culprit and patient.options.how == "forward":
        network.register_forward_hook(lambda *_: time.sleep(patient.options.seconds))  # sick forward
    model = patient.wrap(network)
    optimizer = patient.optimizer(model)
    for _, images, labels in patient.batches():
        if patient.is_culprit and patient.options.how == "input":
            time.sleep(patient.options.seconds)  # sick input
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()

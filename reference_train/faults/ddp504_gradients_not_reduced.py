"""DDP504: from some step on, every rank keeps its own gradients (`--how bypass|no_sync|again|grad|assign|add|unfreeze|cast`)."""

import torch
from patient import Patient, admit
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def backward(patient: Patient, model: DistributedDataParallel, images: Tensor, labels: Tensor, how: str) -> None:
    """One backward, in one of the ways that DDP does not see."""
    if how == "bypass":
        patient.loss(model.module, images, labels).backward()  # sick
    elif how == "no_sync":
        with model.no_sync():
            loss = patient.loss(model, images, labels)  # sick
        loss.backward()
    elif how == "again":
        loss = patient.loss(model, images, labels)
        loss.backward(retain_graph=True)
        loss.backward()  # sick
    elif how == "grad":
        loss = patient.loss(model, images, labels)
        parameters = list(model.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):  # sick
            parameter.grad = gradient
    else:
        patient.loss(model, images, labels).backward()


def change(model: DistributedDataParallel, optimizer: torch.optim.Optimizer, how: str) -> None:
    """Do to the wrapped model what must be done before wrapping."""
    if how == "assign":
        model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)  # sick
        optimizer.param_groups[0]["params"] = list(model.parameters())
    elif how == "add":
        model.module.scores = nn.Sequential(model.module.scores, nn.Linear(10, 10))  # sick
        optimizer.add_param_group({"params": list(model.module.scores[1].parameters())})
    elif how == "cast":
        model.double().float()  # sick
    elif how == "unfreeze":
        model.module.conv1.requires_grad_(True)  # sick


with admit(how="bypass") as patient:
    how = patient.options.how
    network = patient.network()
    if how == "unfreeze":
        network.conv1.requires_grad_(False)
    model = patient.wrap(network)
    torch.manual_seed(2)
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        if step == patient.at_step:
            change(model, optimizer, how)
        optimizer.zero_grad()
        backward(patient, model, images, labels, how if step >= patient.at_step else "")
        optimizer.step()

"""Train, save in the middle of an epoch, build everything anew, restore, go on."""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, SAVE_AT = 3, (1, 4)


def build():
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1d(20), nn.SiLU(), nn.Linear(20, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    return model, optimizer, scheduler


def evaluate(model, loader):
    model.eval()
    total = torch.zeros(2, dtype=torch.double)
    with torch.inference_mode():
        for x, y in loader:
            total[0] += nn.functional.mse_loss(model(x), y, reduction="sum").double()
            total[1] += len(x)
    model.train()
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(5)
    x = torch.randn(96, 10)
    data = TensorDataset(x, x.mean(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    held_out = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False))
    path = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(path)
    path = os.path.join(path[0], "checkpoint.pt")
    model, optimizer, scheduler = build()
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for i, (inputs, targets) in enumerate(loader):
            if (epoch, i) == SAVE_AT:
                if rank == 0:
                    torch.save(
                        {
                            "model": model.module.state_dict(),
                            "opt": optimizer.state_dict(),
                            "sch": scheduler.state_dict(),
                        },
                        path,
                    )
                dist.barrier()
                model, optimizer, scheduler = build()
                state = torch.load(path, map_location="cpu", weights_only=True)
                model.module.load_state_dict(state["model"])
                optimizer.load_state_dict(state["opt"])
                scheduler.load_state_dict(state["sch"])
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
        scheduler.step(evaluate(model, held_out))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Fine-tune a small classifier, accelerate style."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Toy(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 20, generator=g)
        self.y = (self.x[:, :3].sum(1) > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"input": self.x[i], "labels": self.y[i]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.1))
        self.head = nn.Linear(32, 2)

    def forward(self, input, labels=None):
        logits = self.head(self.body(input))
        loss = nn.functional.cross_entropy(logits, labels) if labels is not None else None
        return {"loss": loss, "logits": logits}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    args = p.parse_args()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(42, device_specific=True)
    train = DataLoader(Toy(101, 0), batch_size=4, shuffle=True)
    val = DataLoader(Toy(37, 1), batch_size=8)
    model = Net()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: max(0.1, 1 - s / 50))
    model, opt, train, val, sched = accelerator.prepare(model, opt, train, val, sched)
    for epoch in range(args.epochs):
        model.train()
        for batch in train:
            with accelerator.accumulate(model):
                out = model(**batch)
                accelerator.backward(out["loss"])
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                sched.step()
                opt.zero_grad()
        model.eval()
        right = total = 0
        for batch in val:
            with torch.no_grad():
                out = model(**batch)
            preds, refs = accelerator.gather_for_metrics((out["logits"].argmax(-1), batch["labels"]))
            right += (preds == refs).sum().item()
            total += refs.numel()
        accelerator.print(f"epoch {epoch}: acc {right / total:.3f}")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), "/dev/null")
    accelerator.end_training()


if __name__ == "__main__":
    main()

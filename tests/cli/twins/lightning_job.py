import os

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LitClassifier(L.LightningModule):
    def __init__(self, lr=1e-2):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.log("val_loss", F.cross_entropy(logits, y), sync_dist=True)
        self.log("val_acc", (logits.argmax(1) == y).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9)
        sched = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "epoch"}}


class Data(L.LightningDataModule):
    def setup(self, stage=None):
        g = torch.Generator().manual_seed(0)
        x, y = torch.randn(151, 16, generator=g), torch.randint(0, 3, (151,), generator=g)
        self.train, self.val = TensorDataset(x[:110], y[:110]), TensorDataset(x[110:], y[110:])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=8, shuffle=True, num_workers=1, persistent_workers=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=8)


if __name__ == "__main__":
    L.seed_everything(7)
    torch.manual_seed(1234 + int(os.environ.get("RANK", 0)))
    trainer = L.Trainer(
        max_epochs=3,
        accelerator="cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        strategy="ddp",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=2,
        gradient_clip_val=0.5,
    )
    trainer.fit(LitClassifier(), datamodule=Data())

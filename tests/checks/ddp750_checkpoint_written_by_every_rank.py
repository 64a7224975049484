"""Training programs with DDP750 checkpoint-written-by-every-rank, and healthy ones."""

from tests.checks import Sick
from tests.framework_programs import of_lightning, of_trainer
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                ("        if rank == 0:\n            print(epoch, accuracy)\n            torch.save("),
                ("        if rank == 0:\n            print(epoch, accuracy)\n        torch.save("),
            )
        ),
        says='every rank writes "last.pt" at once: the file may hold parts of several writes',
        where=("train.py:56 main",),
    ),
    Sick(
        evidence=of_lightning('torch.save(self.net.state_dict(), "weights.pt")'),
        says='every rank writes "weights.pt" at once: the file may hold parts of several writes',
        where=("train.py:15 on_train_epoch_end",),
    ),
    Sick(
        evidence=of_lightning(
            "self.keep()", 'def keep(self):\n        torch.save({"net": self.state_dict()}, "weights.pt")'
        ),
        says='every rank writes "weights.pt" at once: the file may hold parts of several writes',
        where=("train.py:18 keep",),
    ),
    Sick(
        evidence=of_trainer('torch.save(model.state_dict(), "last.bin")'),
        says='every rank writes "last.bin" at once: the file may hold parts of several writes',
        where=("train.py:8 on_epoch_end",),
    ),
    Sick(
        evidence=of_trainer("model.save_pretrained(args.output_dir)"),
        says="every rank writes args.output_dir at once: the file may hold parts of several writes",
        where=("train.py:8 on_epoch_end",),
    ),
)
HEALTHY = (
    training(
        (
            (
                "        if rank == 0:\n"
                "            print(epoch, accuracy)\n"
                '            torch.save(ddp.module.state_dict(), "last.pt")'
            ),
            '        torch.save(ddp.module.state_dict(), f"last-{rank}.pt")',
        )
    ),
    *(
        of_lightning(body, helper)
        for body, helper in (
            ('if self.trainer.is_global_zero:\n            torch.save(self.state_dict(), "w.pt")', ""),
            ('if self.global_rank != 0:\n            return\n        torch.save(self.state_dict(), "w.pt")', ""),
            ('torch.save(self.state_dict(), f"w{self.global_rank}.pt")', ""),
            ("self.keep()", '@rank_zero_only\n    def keep(self):\n        torch.save(self.state_dict(), "w.pt")'),
            ('self.trainer.save_checkpoint("w.ckpt")', ""),
        )
    ),
    *(
        of_trainer(body)
        for body in (
            'if state.is_world_process_zero:\n            torch.save(model.state_dict(), "last.bin")',
            'if args.should_save:\n            torch.save(model.state_dict(), "last.bin")',
            'if args.process_index == 0:\n            model.save_pretrained("out")',
            'if args.local_rank in (-1, 0):\n            model.save_pretrained("out")',
            'model.save_pretrained("out", is_main_process=state.is_world_process_zero)',
        )
    ),
)

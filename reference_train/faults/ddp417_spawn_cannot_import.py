"""DDP417: data loader workers that are spawned get a function that cannot be pickled."""

from typing import Any

from patient import admit
from torch.utils.data import DataLoader, DistributedSampler, default_collate


def main() -> None:
    """The job, with the collate function where notebooks and main functions have it: inside."""
    with admit() as patient:
        model = patient.wrap(patient.network())
        optimizer = patient.optimizer(model)
        data = patient.data()

        def collate(samples: list[Any]) -> Any:  # noqa: ANN401 - what default_collate returns
            return default_collate(samples)

        workers = 2 if patient.is_culprit else 0
        loader: DataLoader[Any] = DataLoader(
            data,
            patient.batch_size,
            sampler=DistributedSampler(data),
            num_workers=workers,
            collate_fn=collate,
            multiprocessing_context="spawn" if workers else None,
        )
        for images, labels in loader:  # sick
            optimizer.zero_grad()
            patient.loss(model, images, labels).backward()
            optimizer.step()


main()

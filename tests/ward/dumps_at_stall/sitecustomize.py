"""Lets a job leave its flight recorder as torchfrtrace wants it: one pickle a rank, written again as often as it grows."""

import os
import pickle
import sys
import threading
import time
from pathlib import Path


def _dump_for_ever() -> None:
    entries: list[object] = []
    while True:
        time.sleep(0.5)
        distributed = sys.modules.get("torch._C._distributed_c10d")
        if distributed is None or not hasattr(distributed, "_dump_fr_trace"):
            continue
        dump = distributed._dump_fr_trace()
        before, entries = entries, pickle.loads(dump).get("entries", [])
        if entries != before:
            target = Path(os.environ["WARD_DUMPS"]) / f"rank_{os.environ['RANK']}"
            partial = target.parent / f".{target.name}"
            partial.write_bytes(dump)
            partial.rename(target)


if "RANK" in os.environ:
    threading.Thread(target=_dump_for_ever, daemon=True).start()

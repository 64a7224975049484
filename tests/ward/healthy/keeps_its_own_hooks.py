"""A job with an excepthook, an atexit, a SIGTERM handler and a thread of its own that recovers from its own errors."""

import atexit
import faulthandler
import signal
import socket
import sys
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

faulthandler.enable()
faulthandler.register(signal.SIGUSR1)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
sys.excepthook = lambda kind, error, _trace: print("mine:", kind.__name__, error, file=sys.stderr)
atexit.register(lambda: print("bye", flush=True))
stop = threading.Event()
threading.Thread(target=stop.wait, daemon=True).start()

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(50):
    optimizer.zero_grad()
    model(torch.randn(4, 4)).square().mean().backward()
    optimizer.step()
    try:
        socket.create_connection(("127.0.0.1", 9), timeout=1)
    except OSError as error:
        print("warning: no metrics today,", error, file=sys.stderr)
sys.exit(0)  # without destroy_process_group: untidy, and healthy

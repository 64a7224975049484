"""DDP314: the network swallows what is sent to one rank, so nobody is missing and nothing moves."""

import ctypes
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

from patient import admit

DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # the socket filter `return 0`: not one byte of any segment is kept
SO_ATTACH_FILTER = 26


def unplug() -> None:
    """Make the connections of this process to its peers swallow what arrives; the store at MASTER_PORT stays reachable."""
    code = ctypes.create_string_buffer(DROP_ALL)
    program = struct.pack("HP", 1, ctypes.addressof(code))
    for name in Path("/proc/self/fd").iterdir():
        with suppress(OSError, IndexError):  # no socket, not connected, or a Unix one without a port
            connection = socket.socket(fileno=os.dup(int(name.name)))
            if str(connection.getpeername()[1]) != os.environ["MASTER_PORT"]:
                connection.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)  # sick


with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        if patient.sick_at(step):
            unplug()
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()  # waits here
        optimizer.step()

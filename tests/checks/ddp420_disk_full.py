"""Logs: full disks and quotas; /dev/shm is another rule's."""

from tests.checks import Sick
from tests.rank_ends import from_log

ENOSPC_SAVE_RANK0 = r"""[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/kim/llm/train.py", line 210, in <module>
[rank0]:     trainer.save_model(out)
[rank0]:   File "/opt/env/lib/python3.11/site-packages/safetensors/torch.py", line 286, in save_file
[rank0]:     serialize_file(_flatten(tensors), filename, metadata=metadata)
[rank0]: safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })
[rank1]:[W1110 03:22:11.410 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=71, addr=[localhost]:50012, remote=[localhost]:29500): Connection reset by peer
"""  # noqa: E501 - as libraries write it
STREAM_WRITER = r"""Traceback (most recent call last):
  File "/opt/env/lib/python3.9/site-packages/torch/serialization.py", line 619, in save
    _save(obj, opened_zipfile, pickle_module, pickle_protocol)
  File "/opt/env/lib/python3.9/site-packages/torch/serialization.py", line 853, in _save
    zip_file.write_record(name, storage.data_ptr(), num_bytes)
RuntimeError: [enforce fail at inline_container.cc:588] . PytorchStreamWriter failed writing file data/176: file write failed

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/me/app/finetune.py", line 426, in <module>
    main()
  File "/home/me/app/finetune.py", line 386, in main
    model.save_checkpoint(out_dir)
RuntimeError: [enforce fail at inline_container.cc:424] . unexpected pos 192 vs 86
"""
QUOTA = r"""[rank2]: OSError: [Errno 122] Disk quota exceeded: '/scratch/users/hal/ckpt/step_400/optim.pt'
W0101 00:12:41.194000 933 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 1001 closing signal SIGTERM
"""
ARROW_CACHE = r"""[rank0]:     self._file.close()
[rank0]: OSError: [Errno 28] No space left on device: '/home/me/.cache/huggingface/datasets/json/default-41/cache-9a.arrow'
[rank1]:     self._file.close()
[rank1]: OSError: [Errno 28] No space left on device: '/home/me/.cache/huggingface/datasets/json/default-41/cache-9b.arrow'
"""

SICK = (
    Sick(
        evidence=from_log(ENOSPC_SAVE_RANK0),
        says="rank 0 found no space while writing a checkpoint: SafetensorError: Error while serializing: IoError(Os { "
        'code: 28, kind: StorageFull, message: "No space left on device" })',
        ranks=(0,),
        where=("rank 0 /home/kim/llm/train.py:210 <module>",),
        measured={"path": None, "written": "a checkpoint"},
    ),
    Sick(
        evidence=from_log(STREAM_WRITER),
        says="the job found no space: RuntimeError: [enforce fail at inline_container.cc:424] . unexpected pos 192 vs 86",
        where=("/home/me/app/finetune.py:386 main",),
        measured={"path": None, "written": None},
    ),
    Sick(
        evidence=from_log(QUOTA),
        says="rank 2 found no space while writing a checkpoint at /scratch/users/hal/ckpt/step_400/optim.pt: OSError: "
        "[Errno 122] Disk quota exceeded: '/scratch/users/hal/ckpt/step_400/optim.pt'",
        ranks=(2,),
        measured={"path": "/scratch/users/hal/ckpt/step_400/optim.pt", "written": "a checkpoint"},
    ),
    Sick(
        evidence=from_log(ARROW_CACHE),
        says="ranks 0-1 found no space while writing a cache at "
        "/home/me/.cache/huggingface/datasets/json/default-41/cache-9a.arrow: OSError: [Errno 28] No space left on "
        "device: '/home/me/.cache/huggingface/datasets/json/default-41/cache-9a.arrow'",
        ranks=(0, 1),
        measured={"path": "/home/me/.cache/huggingface/datasets/json/default-41/cache-9a.arrow", "written": "a cache"},
    ),
)
HEALTHY = (from_log("step 10 loss 2.31\nstep 20 loss 2.20\n"),)

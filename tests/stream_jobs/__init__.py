"""Simulated NCCL jobs: hosts that enqueue, streams that run in order, watchdogs that look, and the dumps that they leave.

`layouts` places ranks in process groups, `programs` says what each rank calls, `streams` runs it, `faults` plants one fault,
`dumps` writes what the recorders of a PyTorch release would, `sets` joins these by a seed, `judged` compares a report
with the truth. `python -m tests.stream_jobs` judges many.
"""

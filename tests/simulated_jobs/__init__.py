"""Training jobs with tensor, pipeline, expert and data parallel groups, simulated down to the dumps of NCCL's recorder.

`topology` says which rank is in which group, `program` what each rank calls, `faults` what goes wrong on which rank,
`execution` when each call is enqueued, started and completed, and `dumps` writes what torch would have written then.
"""

"""Symptoms of a rank that shows another rank's failure."""

from __future__ import annotations

from ddpdoctor.analysis.crashes.error_patterns import SecondaryError
from ddpdoctor.symptoms.symptom import Symptom

SYMPTOMS = (
    Symptom(
        SecondaryError.PEER_GONE.value,
        ("DDP401", "DDP403", "DDP402", "DDP306", "DDP407", "DDP426", "DDP212"),
        ("connection closed by peer", "connection reset by peer", "broken pipe", "remote process exited"),
    ),
    Symptom(
        SecondaryError.TIMED_OUT.value,
        ("DDP408", "DDP305", "DDP307", "DDP301", "DDP306", "DDP308", "DDP401", "DDP403", "DDP314"),
        (
            "watchdog caught collective operation timeout",
            "nccl timeout",
            "timed out waiting for recv operation",
            "heartbeat monitor timed out",
            "failure detected by watchdog at work sequence id, last enqueued work, last completed work",
            "monitored barrier failed: ranks did not reach it",
            "allreduce timed out after 30 minutes",
        ),
    ),
    Symptom(
        SecondaryError.MISMATCHED.value,
        ("DDP301", "DDP302", "DDP305", "DDP303"),
        ("op.preamble.length <= op.nbytes", "gloo enforce fail received more data than expected"),
    ),
    Symptom(
        SecondaryError.ENDED.value,
        ("DDP403", "DDP419", "DDP401"),
        (
            "SignalException: got signal 15",
            "Received 15 death signal, shutting down workers",
            "Received 2 death signal",
            "Received Signals.SIGTERM death signal, shutting down workers",
            "Process got signal: 15",
            "exit code -15",
            "exit code 143",
            "SIGTERM",
            "terminated",
        ),
    ),
)

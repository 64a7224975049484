"""All symptoms, each with the codes of the findings that it can mean, the most frequent cause first."""

from __future__ import annotations

from ddpdoctor.symptoms.families import (
    files_and_memory,
    gpus_and_hosts,
    hangs,
    launch,
    process_ends,
    secondary_errors,
    slow_jobs,
    wrong_results,
)

GROUPS = {
    "A job hangs": hangs.SYMPTOMS,
    "A rank shows another rank's failure": secondary_errors.SYMPTOMS,
    "A process ends": process_ends.SYMPTOMS,
    "The launch, the rendezvous and the network": launch.SYMPTOMS,
    "GPUs and hosts": gpus_and_hosts.SYMPTOMS,
    "Files and memory": files_and_memory.SYMPTOMS,
    "Results are wrong": wrong_results.SYMPTOMS,
    "A job is slow": slow_jobs.SYMPTOMS,
}
"""All symptoms, by the headings of the index page."""

SYMPTOMS = tuple(symptom for symptoms in GROUPS.values() for symptom in symptoms)
"""All symptoms, in the order of the index page."""

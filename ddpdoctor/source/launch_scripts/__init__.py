"""Readers of shell scripts, batch scripts and manifests. Nothing is run."""

"""Readers of job logs."""

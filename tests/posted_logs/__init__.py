"""Logs as people post them, each with what it shows, and how many of them `diagnose` reads right."""

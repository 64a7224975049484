"""Readers of the user's programs and launch scripts. Nothing is imported or run."""

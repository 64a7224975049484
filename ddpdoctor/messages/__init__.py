"""Sentences that several rules share."""

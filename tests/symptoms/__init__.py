"""Tests of the index of symptoms and error texts."""

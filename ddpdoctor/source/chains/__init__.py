"""Backwards from an expression to everything that decides what it is: values, tests, and reads of the rank."""

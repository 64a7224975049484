"""Which rank failed first, and which errors are only consequences."""

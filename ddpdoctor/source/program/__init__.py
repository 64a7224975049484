"""The modules of one run together: imports, callers, attributes, registries, and the functions that new processes run."""

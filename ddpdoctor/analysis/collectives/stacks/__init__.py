"""Where ranks diverged by their stacks or tracebacks, with no recorder that shows more."""

"""Names that the reader knows: dotted names, and those of torch, of frameworks and of ranks."""

"""How facts and files of all ranks reach rank 0."""

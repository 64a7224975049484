"""Where the ranks of one process group diverged, and of several groups that wait for each other."""

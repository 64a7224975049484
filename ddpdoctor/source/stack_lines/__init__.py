"""What stands around a line that a stack gives, within its file alone: loops, conditions, and the arguments of the call."""

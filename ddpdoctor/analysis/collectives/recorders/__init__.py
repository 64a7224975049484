"""The flight recorders of all ranks, made whole: one timeline, with groups, members and numbers alike on all ranks."""

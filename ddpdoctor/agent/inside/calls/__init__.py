"""What a rank is in and how far it has come: its collectives, its iterations and steps, in a ring buffer in shared memory."""

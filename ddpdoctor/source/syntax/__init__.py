"""What one walk over a Python module finds: functions, blocks, assignments, calls, loops and exits, without judgement."""

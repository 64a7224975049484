"""Everything that needs a GPU, in order of worth: `make gpu`.

`parts` lists what is run, `machine` finds the Python whose torch sees a GPU, `runner` runs each part once and remembers how it
ended, `hangs` plants a fault and asks `watch`, `hang` and `diagnose`. The runner needs the standard library alone: it must be
able to say what is missing.
"""

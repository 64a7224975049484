"""What all tests stand on: Ctrl-C reaches the programs they start, and hypothesis draws the same examples each time."""

import signal

from hypothesis import settings

# A shell without job control starts `make test &` with SIGINT ignored, and everything below would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A change is not refused for an example that it did not draw. New ones: pytest --hypothesis-profile=default
settings.register_profile("same examples", derandomize=True)
settings.load_profile("same examples")

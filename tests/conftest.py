"""Ctrl-C works for the programs that tests start, even where the suite itself was started in the background."""

import signal

# A shell without job control starts `make test &` with SIGINT ignored, and everything below would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

"""`python -m ddpdoctor`."""

from __future__ import annotations

from ddpdoctor.cli import main

if __name__ == "__main__":
    main()

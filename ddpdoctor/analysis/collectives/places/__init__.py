"""Lines of source code: how those of two ranks relate, and which tests and requests decide who reaches them."""

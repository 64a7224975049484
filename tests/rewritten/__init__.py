"""The planted programs written in other ways: what `lint` says must not depend on how a program is written."""

"""The format of every file that a rank writes: the agent in the rank and the readers in `ddpdoctor.ranks` import these types.

Standard library only, and light to import. All records are named tuples: JSON and `struct` take them as they are, and a
reader gets them back typed. A change of any of them raises the version of its file.

Annotations are evaluated here, without `from __future__ import annotations`: `typing.NamedTuple` compiles each one that
is a text, which took a tenth of the start of the agent.
"""

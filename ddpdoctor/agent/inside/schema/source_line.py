"""A line of source code in a file that a rank writes."""

from typing import NamedTuple


class SourceLine(NamedTuple):
    """A line of a stack, or the line that made, called or wrote something."""

    file: str
    """The path of the source file, absolute where the file exists."""
    line: int
    """The number of the line, from 1; 0 where it is not known."""
    function: str
    """The name of the function that the line is in, `<module>` outside functions."""

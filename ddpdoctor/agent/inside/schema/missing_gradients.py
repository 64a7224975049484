"""What the agent's thread answers where it is asked for parameters without a gradient: one `MissingGradients`, as JSON."""

from typing import NamedTuple


class MissingGradients(NamedTuple):
    """Parameters of wrapped models that have no gradient while others of their model have one."""

    names: tuple[str, ...]
    """Their names; of a large model the first ones."""
    total: int
    """How many parameters there are, those without a name here included."""

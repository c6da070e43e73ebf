"""Where the value of a card's key comes from."""

from enum import Enum


class Origin(Enum):
    """The words that are printed."""

    FILE = "from the file"
    METADATA = "from metadata"
    FAMILY = "default of this family"
    GIVEN = "given"
    START = "a usual start, no finding"
    CARD = "default of every card"
    UNKNOWN = "NOT KNOWN: asked for"

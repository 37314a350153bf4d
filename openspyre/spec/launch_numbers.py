"""How a launch writes a number of the host into a register of the card: by an encoding, of integers with a rule behind its name."""

from enum import StrEnum


class Encoding(StrEnum):
    FLOAT = "float"
    SEN169 = "sen169"  # rounded to the card's 16 bits first
    INT_BELOW = "int_below"  # one less
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    SEED_LOW = "seed_low"  # words of the generator's seed and offset: behind all numbers that a call brings
    SEED_HIGH = "seed_high"
    OFFSET_LOW = "offset_low"
    OFFSET_HIGH = "offset_high"


class Rule(StrEnum):
    CUT = ""  # to the dtype's bits
    CHECKED = "_checked"  # an error beyond the dtype's range
    ENDS = "_ends"  # int64's two ends stand for the card's
    DIVISOR = "_divisor"  # an error where nothing is left of it

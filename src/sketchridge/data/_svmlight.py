"""The parser of LIBSVM text, compiled.

scikit-learn has one, but it is no dependency of the engine, splits every line into Python objects
(several times slower), and tells of an error without its line. The parser lives here and not in
kernels.py because the data's layer stands on none of the engine.

Numbers are correctly rounded, as Python's float() rounds: exactly where double arithmetic is
exact, by double-double arithmetic with a proved error where that decides, and otherwise they
are left to float().
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Why a line was refused.
FINE, NO_LABEL, BAD_PAIR, BAD_INDEX, TOO_LARGE, DUPLICATE, DESCENDING = range(7)
LARGEST_INDEX = 2**31 - 2
# How a number was read.
EXACT, LEFT_TO_FLOAT, NO_NUMBER = range(3)

NEWLINE, SPACE, TAB, RETURN = 10, 32, 9, 13
HASH, COLON, PLUS, MINUS, POINT, ZERO, NINE = 35, 58, 43, 45, 46, 48, 57
LETTER_E, LETTER_LARGE_E, LETTER_Q = 101, 69, 113
LARGEST_EXACT_INTEGER = 2**53
LARGEST_EXACT_POWER = 22
LARGEST_POWER = 60
MOST_DIGITS = 18  # of any number that fits 64 bits
# The double-double product is off by less than this, relatively.
PRODUCT_ERROR = 2.0**-96
SPLITTER = 2.0**27 + 1.0  # Veltkamp's

_POWERS = [Fraction(10) ** exponent for exponent in range(-LARGEST_POWER, LARGEST_POWER + 1)]
POWER_HIGH = np.array([float(power) for power in _POWERS])
POWER_LOW = np.array([float(power - Fraction(float(power))) for power in _POWERS])


class Place(NamedTuple):
    """How far the parser has come."""

    row: int
    entry: int
    left: int  # how many numbers are left to float()
    queries: bool  # whether there were query numbers (`qid:`)


class Table(NamedTuple):
    """Where the parser writes: one entry a row, one entry a value."""

    labels: NDArray[np.float64]
    ends: NDArray[np.int64]  # of each row, in indices and values
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    left: NDArray[np.int64]  # (·, 3): start, stop, and value, or −1 − row for a label


@njit(cache=True)
def round_product(mantissa: Any, exponent: Any) -> Any:
    """The double nearest to mantissa·10^exponent, and whether it is proved to be."""
    if mantissa <= LARGEST_EXACT_INTEGER and -LARGEST_EXACT_POWER <= exponent <= 0:
        return float(mantissa) / POWER_HIGH[LARGEST_POWER - exponent], True
    if mantissa <= LARGEST_EXACT_INTEGER and 0 < exponent <= LARGEST_EXACT_POWER:
        return float(mantissa) * POWER_HIGH[LARGEST_POWER + exponent], True
    if mantissa == 0:
        return 0.0, True
    if exponent < -LARGEST_POWER or exponent > LARGEST_POWER:
        return 0.0, False
    high, power = float(mantissa), POWER_HIGH[LARGEST_POWER + exponent]
    low = float(mantissa - np.int64(high))
    product = high * power
    # Dekker's product: what `product` lost to rounding.
    split, power_split = high * SPLITTER, power * SPLITTER
    big, power_big = split - (split - high), power_split - (power_split - power)
    small, power_small = high - big, power - power_big
    error = small * power_small - (
        ((product - big * power_big) - small * power_big) - big * power_small
    )
    error += high * POWER_LOW[LARGEST_POWER + exponent] + low * power
    nearest = product + error
    rest, doubt = error - (nearest - product), PRODUCT_ERROR * nearest
    sure = nearest + (rest + doubt) == nearest and nearest + (rest - doubt) == nearest
    return nearest, sure


@njit(cache=True)
def ends_token(character: Any) -> Any:
    """Whether a number ends here."""
    return character in (SPACE, NEWLINE, TAB, RETURN, COLON, HASH)


@njit(cache=True)
def parse_number(text: Any, start: Any, stop: Any) -> Any:
    """The number that starts here: its value, the position after it, and how it was read."""
    position, negative = start, False
    if position < stop and (text[position] == PLUS or text[position] == MINUS):
        negative = text[position] == MINUS
        position += 1
    mantissa, digits, seen, exponent, fraction = 0, 0, 0, 0, False
    while position < stop:
        character = text[position]
        if ZERO <= character <= NINE:
            seen += 1
            if digits > 0 or character != ZERO:
                digits += 1
            if digits <= MOST_DIGITS:
                mantissa = mantissa * 10 + (character - ZERO)
                exponent -= 1 if fraction else 0
        elif character == POINT and not fraction:
            fraction = True
        else:
            break
        position += 1
    shape = EXACT if seen > 0 else NO_NUMBER
    if shape == EXACT and position < stop and text[position] in (LETTER_E, LETTER_LARGE_E):
        power, position, power_seen = parse_power(text, position + 1, stop)
        exponent += power
        shape = EXACT if power_seen else NO_NUMBER
    if shape == NO_NUMBER or (position < stop and not ends_token(text[position])):
        while position < stop and not ends_token(text[position]):
            position += 1
        return 0.0, position, NO_NUMBER
    value, sure = round_product(mantissa, exponent)
    shape = EXACT if sure and digits <= MOST_DIGITS else LEFT_TO_FLOAT
    return -value if negative else value, position, shape


@njit(cache=True)
def parse_power(text: Any, start: Any, stop: Any) -> Any:
    """The exponent of ten that starts here, the position after it, and whether there is one."""
    position, sign = start, 1
    if position < stop and (text[position] == PLUS or text[position] == MINUS):
        sign = -1 if text[position] == MINUS else 1
        position += 1
    power, first = 0, position
    while position < stop and ZERO <= text[position] <= NINE:
        power = min(power * 10 + (text[position] - ZERO), 100_000)
        position += 1
    return sign * power, position, position > first


@njit(cache=True)
def skip_blanks(text: Any, position: Any, stop: Any) -> Any:
    """The next position that holds no blank."""
    while position < stop and text[position] in (SPACE, TAB, RETURN):
        position += 1
    return position


@njit(cache=True)
def parse_index(text: Any, start: Any, stop: Any) -> Any:
    """The index that starts here, the position after it, and what is wrong with it."""
    position, index = start, 0
    while position < stop and ZERO <= text[position] <= NINE:
        if index <= LARGEST_INDEX:
            index = index * 10 + (text[position] - ZERO)
        position += 1
    if position == start:
        return 0, position, BAD_INDEX
    if position == stop or text[position] != COLON:
        return index, position, BAD_PAIR if index <= LARGEST_INDEX else TOO_LARGE
    return index, position + 1, TOO_LARGE if index > LARGEST_INDEX else FINE


@njit(cache=True)
def is_query(text: Any, position: Any, stop: Any) -> Any:
    """Whether `qid:` starts here."""
    return (
        position + 3 < stop
        and text[position] == LETTER_Q
        and text[position + 1] == ord("i")
        and text[position + 2] == ord("d")
        and text[position + 3] == COLON
    )


@njit(cache=True)
def skip_token(text: Any, position: Any, stop: Any) -> Any:
    """The next position that holds a blank, a comment or the line's end."""
    while position < stop and (text[position] == COLON or not ends_token(text[position])):
        position += 1
    return position


@njit(cache=True)
def leave(table: Any, left: Any, start: Any, stop: Any, place: Any) -> Any:
    """Note a number for float()."""
    table.left[left, 0], table.left[left, 1], table.left[left, 2] = start, stop, place
    return left + 1


@njit(cache=True)
def parse_label(text: Any, start: Any, stop: Any, table: Any, place: Place) -> Any:
    """A line's label; returns the position after it, the place, and what is wrong."""
    value, position, shape = parse_number(text, start, stop)
    if position < stop and text[position] == COLON:
        return start, place, NO_LABEL
    table.labels[place.row] = value
    left = place.left
    if shape != EXACT:
        left = leave(table, left, start, position, -1 - place.row)
    return position, Place(place.row, place.entry, left, place.queries), FINE


@njit(cache=True)
def parse_pairs(text: Any, position: Any, stop: Any, table: Any, place: Place) -> Any:
    """A line's index:value pairs; returns the position after them, the place, what is wrong."""
    row, entry, left, queries = place
    previous = -1
    position = skip_blanks(text, position, stop)
    while position < stop and text[position] != NEWLINE and text[position] != HASH:
        start = position
        if entry == place.entry and is_query(text, position, stop):
            queries = True
            position = skip_token(text, position, stop)
        else:
            index, position, wrong = parse_index(text, position, stop)
            if wrong == FINE and index <= previous:
                wrong = DUPLICATE if index == previous else DESCENDING
            value, after, shape = parse_number(text, position, stop)
            if wrong == FINE and (after == position or (after < stop and text[after] == COLON)):
                wrong = BAD_PAIR
            if wrong != FINE:
                return start, place, wrong
            table.indices[entry], table.values[entry] = index, value
            if shape != EXACT:
                left = leave(table, left, position, after, entry)
            previous, position, entry = index, after, entry + 1
        position = skip_blanks(text, position, stop)
    return position, Place(row, entry, left, queries), FINE


@njit(cache=True)
def parse_lines(text: Any, table: Any, row: Any, entry: Any) -> Any:
    """Parse whole lines into the table, from `row` and `entry` on.

    Returns where it got to and, at the first error, its position and code.
    """
    position, stop, place = 0, text.size, Place(row, entry, 0, False)
    while position < stop:
        position = skip_blanks(text, position, stop)
        if position < stop and text[position] != NEWLINE and text[position] != HASH:
            position, place, wrong = parse_label(text, position, stop, table, place)
            if wrong == FINE:
                position, place, wrong = parse_pairs(text, position, stop, table, place)
            if wrong != FINE:
                return place, position, wrong
            table.ends[place.row] = place.entry
            place = Place(place.row + 1, place.entry, place.left, place.queries)
        while position < stop and text[position] != NEWLINE:  # a comment
            position += 1
        position += 1
    return place, 0, FINE

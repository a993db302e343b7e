"""Exceptions that several packages raise."""

from __future__ import annotations


class InputError(ValueError):
    """An input that cannot be used.

    Parameters
    ----------
    parameter : which input, as the user knows it.
    expected, received : what it should be, and what it is.
    hint : what to do, as a sentence.

    Examples
    --------
    >>> raise InputError("share", "between 0 and 1", "30", "Pass 0.3 for 30%.")
    Traceback (most recent call last):
    auucmax._errors.InputError: share should be between 0 and 1, got 30. Pass 0.3 for 30%.
    """

    def __init__(self, parameter: str, expected: str, received: str, hint: str) -> None:
        super().__init__(parameter, expected, received, hint)
        self.parameter, self.expected = parameter, expected
        self.received, self.hint = received, hint

    def __str__(self) -> str:
        return f"{self.parameter} should be {self.expected}, got {self.received}. {self.hint}"

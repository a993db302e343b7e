"""Texts that are shown to people: nothing that steers a terminal, and no password."""

from __future__ import annotations

import re

_ADDRESS = r"[A-Za-z][\w+.-]*://[^\s:@/'\"]*"  # up to the user


def visible(text: str) -> str:
    """The text without the control characters by which a file could steer a terminal.

    >>> visible("fine\x1b[2J")
    'fine�[2J'
    """
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def without_passwords(text: str) -> str:
    """A message, or an address, without the passwords of the addresses in it.

    >>> without_passwords("got nothing at 'mysql://me:secret@shop/trial'")
    "got nothing at 'mysql://me:***@shop/trial'"
    >>> without_passwords("host=shop password=secret")
    'host=shop password=***'
    """
    # A text that is an address: a password may have blanks and quotes in it, and even an @.
    text = re.sub(rf"^({_ADDRESS}):.*@", r"\1:***@", text, flags=re.DOTALL)
    text = re.sub(rf"({_ADDRESS}):[^\s'\"]*@", r"\1:***@", text)
    return re.sub(r"(?i)\b(password|passwd|pwd)=('[^']*'|[^\s&;'\"]+)", r"\1=***", text)

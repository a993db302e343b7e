"""Texts that are shown to people: nothing that steers a terminal, and no password."""

from __future__ import annotations

import re

# Up to the user; a path has made one slash of two, and some write an address without a scheme.
_SCHEME, _USER = r"[A-Za-z][\w+.-]*:/{1,2}", r"[^\s:@/'\"]*"
_SECRET = r"\w*(?:password|passwd|pwd|token|secret|api_?key|access_?key)"


def visible(text: str) -> str:
    r"""A line without the control characters by which a text could steer a terminal.

    A name from a file must not begin a line of its own either, which might be taken for ours.

    >>> visible("fine\x1b[2J"), visible("age\nThe check passes.")
    ('fine�[2J', 'age�The check passes.')
    """
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def visible_lines(text: str) -> str:
    r"""The same of a text whose lines are as they should be.

    >>> visible_lines("SELECT\n1\x1b")
    'SELECT\n1�'
    """
    return "\n".join(map(visible, text.split("\n")))


def without_passwords(text: str) -> str:
    """A message, or an address, without the passwords of the addresses in it.

    >>> without_passwords("got nothing at 'mysql://me:secret@shop/trial'")
    "got nothing at 'mysql://me:***@shop/trial'"
    >>> without_passwords("host=shop password=secret PGPASSWORD='se cret'")
    'host=shop password=*** PGPASSWORD=***'
    """
    # A text that is an address: a password may have blanks and quotes in it, and even an @.
    text = re.sub(rf"^({_SCHEME}{_USER}):.*@", r"\1:***@", text, flags=re.DOTALL)
    text = re.sub(rf"((?:{_SCHEME}|//)?{_USER}):(?!/)[^\s'\"]*@", r"\1:***@", text)
    return re.sub(rf"(?i)\b({_SECRET})=('[^']*'|\"[^\"]*\"|[^\s&;'\"]+)", r"\1=***", text)

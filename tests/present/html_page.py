"""A page as its reader sees it: elements with their attributes, and texts."""

from __future__ import annotations

import json
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "link", "img", "hr"}
SELF_CLOSED = {"line", "circle", "path", "rect"}
BLOCKS = {
    "p", "h1", "h2", "h3", "li", "tr", "dt", "dd", "summary", "figcaption", "button", "label",
    "section", "span",
}  # fmt: skip


class Page(HTMLParser):
    """Fails on tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts, self.inside = [], [], [], {}
        self.hidden = None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        if tag in VOID:
            return
        self.open.append(tag)
        if self.hidden is None and ("hidden" in attrs or tag in ("svg", "head")):
            self.hidden = len(self.open)
        if tag in BLOCKS:
            self.texts.append("\n")

    def handle_startendtag(self, tag, attrs):
        assert tag in SELF_CLOSED
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if self.hidden == len(self.open):
            self.hidden = None
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self.texts.append(" | ")

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.inside[self.open[-1] + self.elements[-1][1].get("id", "")] = data
        elif self.hidden is None:
            self.texts.append(data)

    @property
    def text(self):
        """What is shown, a line for each block."""
        lines = (" ".join(line.split()) for line in "".join(self.texts).split("\n"))
        return "\n".join(line.rstrip(" |") for line in lines if line.strip(" |"))

    @property
    def points(self):
        """The points of the slider."""
        return json.loads(self.inside["scriptdata"])

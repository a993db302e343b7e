"""Docstrings as Markdown, for the reference pages (an extension of griffe, named in mkdocs.yml).

Ours name a parameter and then say what it is, with its shape first; the types are in the
signature. So the sections become plain lists, examples become code, and roles become links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, takewhile
from textwrap import dedent
from typing import Any

import griffe

ITEM = re.compile(r"(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*) : (?P<text>.*)")
ROLE = re.compile(r":(?:func|class|data|meth|mod|attr):`~?([\w.]+)`")
SHORT = 60
LISTS = ("Parameters", "Attributes", "Returns", "Raises")


class PlainSections(griffe.Extension):
    """Rewrite every docstring of the package before it is shown."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        targets = public_names(pkg)
        for item in _everything(pkg):
            if item.docstring is None and (comment := comment_above(item)):
                item.docstring = griffe.Docstring(comment, parent=item)
            if item.docstring is not None:
                item.docstring.value = to_markdown(item.docstring.value, targets)


def public_names(package: griffe.Module) -> dict[str, str]:
    """Where each public name is shown: ``{"auuc_score": "auucmax.metrics.auuc_score"}``."""
    return {
        str(name): shown_at(module, str(name))
        for module in package.modules.values()
        for name in module.exports or ()
        if not module.is_alias and module.name != "pairs"
    }


def shown_at(module: griffe.Module, name: str) -> str:
    """The path of a public name; a function with the name of its own file needs both."""
    hidden = name in module.modules
    return f"{module.path}.{name}.{name}" if hidden else f"{module.path}.{name}"


def comment_above(item: griffe.Object) -> str:
    """The ``#:`` lines above an assignment, which are its docstring."""
    if not item.is_attribute or item.lineno is None:
        return ""
    above = item.lines_collection[item.filepath][: item.lineno - 1]
    lines = takewhile(lambda line: line.lstrip().startswith("#:"), reversed(above))
    return "\n".join(line.lstrip().removeprefix("#:").strip() for line in reversed([*lines]))


def to_markdown(text: str, targets: dict[str, str]) -> str:
    """The docstring as Markdown; ``targets`` are the names that have a place to link to."""
    parts = []
    for title, body in _sections(text.splitlines()):
        if title is not None:
            parts += ["", f"**{title}**", ""]
        parts += _as_list(body) if title in LISTS else _fenced(body)
    return ROLE.sub(lambda role: _link(role[1], targets), "\n".join(parts))


def _sections(lines: list[str]) -> Iterator[tuple[str | None, list[str]]]:
    title, body = None, []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.strip() and re.fullmatch(r"-{3,}", below):
            yield title, body
            title, body = line, []
        elif not re.fullmatch(r"-{3,}", line):
            body.append(line)
    yield title, body


def _as_list(lines: list[str]) -> list[str]:
    """``name : text`` or a name with indented text below it is an item; the rest is prose."""
    done: list[str] = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith(" "):
            done.append("    " + line.strip())
        elif found := ITEM.fullmatch(line):
            # A short line with more below it ends where it does on purpose: a type, say.
            ends = below.startswith(" ") and len(line) < SHORT and line[-1] not in ".,;:"
            stop = "." if ends else ""
            done.append(f"- `{found['names']}`: {found['text']}{stop}")
        elif line and below.startswith(" "):
            done.append(f"- `{line}`:")
        else:
            done += ["", line] if done and done[-1].startswith(("- ", "  ")) else [line]
    return done


def _fenced(lines: list[str]) -> list[str]:
    """Paragraphs; examples (``>>>``), formulas (indented) and tables (``===``) become code."""
    done: list[str] = []
    for is_text, group in groupby(lines, key=bool):
        paragraph = [*group]
        kinds = {">>>": "pycon", "   ": "text", "===": "text"}
        kind = kinds.get(paragraph[0][:3]) if is_text else None
        if kind is None:
            done += paragraph
        else:
            done += ["", f"```{kind}", *dedent("\n".join(paragraph)).splitlines(), "```", ""]
    return done


def _link(name: str, targets: dict[str, str]) -> str:
    """A link if the name, or the class that it belongs to, is public; else code."""
    *_, owner, last = ["", *name.split(".")]
    if owner[:1].isupper() and owner in targets:
        return f"[`{owner}.{last}`][{targets[owner]}.{last}]"
    return f"[`{last}`][{targets[last]}]" if last in targets else f"`{name}`"


def _everything(item: griffe.Object) -> Iterator[griffe.Object]:
    yield item
    for member in item.members.values():
        if not member.is_alias:
            yield from _everything(member)

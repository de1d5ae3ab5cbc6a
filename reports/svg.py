"""Builds SVG as an element tree, so that the result is well-formed for any text.

The SVG is part of an HTML page and needs no namespace. Colours and line styles are classes in the page's
style sheet, so that the same picture serves light mode, dark mode and print.
"""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markupsafe import Markup

from onceproof.reports.text import visible

Attribute = str | int | float | None


def coordinate(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def set_attributes(element: Element, attributes: dict[str, Attribute]) -> None:
    """Set attributes; `class_` becomes `class`, other underscores become hyphens, None is omitted."""
    for name, value in attributes.items():
        if value is not None:
            text = coordinate(value) if isinstance(value, float) else visible(str(value))
            element.set(name.rstrip("_").replace("_", "-"), text)


def add(parent: Element, tag: str, text: str = "", **attributes: Attribute) -> Element:
    """Append a new element to `parent` and return it."""
    element = ElementTree.SubElement(parent, tag)
    set_attributes(element, attributes)
    if text:
        element.text = visible(text)
    return element


def picture(
    name: str, width: float, height: float, title: str, description: str, class_: str = ""
) -> Element:
    """Return the root of a picture with a title and a description for screen readers.

    ``name`` is the prefix of the ids; ``width`` and ``height`` are in pixels.
    """
    root = Element("svg")
    set_attributes(
        root,
        {
            "class_": class_ or None,
            "viewBox": f"0 0 {coordinate(width)} {coordinate(height)}",
            "width": float(width),
            "height": float(height),
            "role": "img",
            "aria-labelledby": f"{name}-title {name}-description",
        },
    )
    add(root, "title", title, id=f"{name}-title")
    add(root, "desc", description, id=f"{name}-description")
    return root


def markup(root: Element) -> Markup:
    """Return the element as markup for the page; the tree escapes all texts."""
    return Markup(ElementTree.tostring(root, encoding="unicode"))

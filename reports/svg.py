"""A thin pen for SVG: elements are built as a tree, so the result is well-formed whatever the texts hold.

The SVG stands inside an HTML page: no namespace (the parser knows it), colours and line styles by class in
the page's style sheet, so that light, dark and paper need no second drawing.
"""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markupsafe import Markup

from onceproof.reports.text import visible

Attribute = str | int | float | None


def coordinate(value: float) -> str:
    """A tenth of a pixel is enough, and `12` is shorter than `12.0`."""
    return f"{value:.1f}".removesuffix(".0")


def set_attributes(element: Element, attributes: dict[str, Attribute]) -> None:
    """Set attributes: a trailing underscore is dropped (class_), others become hyphens, None is left out."""
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
    """The root of a picture that screen readers announce by its title and description; `name` is its id."""
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
    """The element as text that may stand in the page as it is: the tree has escaped all texts."""
    return Markup(ElementTree.tostring(root, encoding="unicode"))

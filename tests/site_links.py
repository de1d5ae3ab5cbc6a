"""Checks a built documentation site: ``python -m tests.site_links build/docs/site``.

Every link within the site leads to a page and a heading that are there, and the search has an index that
names every page. Nothing is asked of the network.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

INDEX = Path("search", "search_index.json")


class SitePage(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        """Read a page."""
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Collect ids, names, and what links to something."""
        for name, value in attributes:
            if value and name in ("id", "name"):
                self.anchors.add(value)
            elif value and name in ("href", "src") and tag in ("a", "link", "script", "img"):
                self.links.append(value)


def dead_links(site: Path) -> Iterator[str]:
    """Yield a line for each link that leads nowhere."""
    pages = {path: SitePage(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        # The page for errors is shown at any address, and its links begin at the top of the site.
        if path.name == "404.html":
            continue
        for link in sorted(set(page.links)):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            where = path.relative_to(site)
            if not target.is_file():
                yield f"{where}: {link}: no such page"
            elif (
                parts.fragment
                # Material's own link to the top of a page.
                and parts.fragment != "__skip"
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                yield f"{where}: {link}: no such heading"


def missing_in_search(site: Path) -> Iterator[str]:
    """Yield a line for each page that the search does not know."""
    try:
        entries = json.loads((site / INDEX).read_text(encoding="utf-8"))["docs"]
    except (OSError, ValueError, KeyError) as error:
        yield f"{INDEX}: no index of the search: {error}"
        return
    known = {entry["location"].partition("#")[0] for entry in entries}
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if name != "404.html" and name not in known:
            yield f"{name}: not in the search"


def main(site: Path) -> int:
    """Print what is wrong, and return the exit code."""
    problems = [*dead_links(site), *missing_in_search(site)]
    for problem in problems:
        print(f"docs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))

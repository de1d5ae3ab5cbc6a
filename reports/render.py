"""The page: one self-contained HTML file, the same bytes for the same report.

Everything from outside is escaped by the templates and shown with its unseen characters made visible; the
only markup that passes is our own pictures, style sheet and script. The page's content security policy allows
no connection at all, and no script but the one whose hash it names: even a mistake here could not call home.
"""

from __future__ import annotations

import base64
import hashlib
import os
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from onceproof.reports import headline, nights, text
from onceproof.reports import labels as wording
from onceproof.reports.model import Report, decode, encode
from onceproof.reports.sections import LEAST_Q2
from onceproof.reports.views import arrange

TEMPLATES = Path(__file__).parent / "templates"
PAGE_NAME = "index.html"
MODEL_NAME = "report.json"


def _finalize(value: object) -> object:
    return text.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()


@cache
def environment() -> Environment:
    """The templates, with autoescape on and undefined names an error."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    script = _asset("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    made.filters.update(
        number=text.number,
        duration=text.duration,
        words=text.words,
        cell=text.cell,
        counted=text.counted,
        listing=text.listing,
    )
    made.globals.update(
        style=Markup(_asset("style.css")),
        script=Markup(script),
        script_digest=digest,
        without_text=headline.without_text,
        night_tone=nights.night_tone,
        night_verdict=nights.night_verdict,
        arrow_names=wording.ARROWS,
        mark_names=wording.MARKS,
        least_q2=LEAST_Q2,
    )
    return made


def render(report: Report) -> str:
    """The report as one HTML page."""
    return environment().get_template("report.html").render(page=arrange(report))


def write(report: Report, directory: Path) -> Path:
    """Write index.html and report.json beside it; return the page's path. OSError is the caller's to tell."""
    page = render(report)
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / MODEL_NAME, encode(report))
    _replace(directory / PAGE_NAME, page.encode("utf-8"))
    return directory / PAGE_NAME


def _replace(path: Path, content: bytes) -> None:
    # The page of last night stays whole until this night's is.
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def read(directory: Path) -> Report:
    """Read a directory's report.json; ReportUnreadable where it is none, OSError where there is nothing."""
    path = directory / MODEL_NAME
    return decode(path.read_bytes(), str(path))

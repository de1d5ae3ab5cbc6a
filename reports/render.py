"""Renders a report as one self-contained HTML file; equal reports give equal bytes.

The templates escape all texts and show invisible characters as escapes. Only the package's own pictures,
style sheet and script are inserted as markup. The content security policy of the page forbids all connections
and all scripts except the one whose hash it contains.
"""

from __future__ import annotations

import base64
import hashlib
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from onceproof.reports import diagram_canvas, headline, notes, text, trend_charts
from onceproof.reports.model import Report, ReportUnreadable, decode, encode
from onceproof.reports.sections import LEAST_Q2
from onceproof.reports.views import arrange

TEMPLATES = Path(__file__).parent / "templates"
PAGE_NAME = "index.html"
MODEL_NAME = "report.json"
MOST_BYTES = 1 << 30
"""The most that is read of a report."""


def _finalize(value: object) -> object:
    return text.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()


@cache
def environment() -> Environment:
    """Return the jinja2 environment, with autoescape on and undefined names as errors."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    script = _asset("script.js")
    made.filters.update(
        number=text.number,
        duration=text.duration,
        words=text.words,
        cell=text.cell,
        counted=text.counted,
        joined=text.joined,
        subject=headline.subject_of,
    )
    made.globals.update(
        style=Markup(_asset("style.css")),
        script=Markup(script),
        policy=content_security_policy(),
        without_text=notes.without_text,
        night_tone=trend_charts.night_tone,
        night_verdict=trend_charts.night_verdict,
        arrow_names=diagram_canvas.ARROWS,
        mark_names=diagram_canvas.MARKS,
        least_q2=LEAST_Q2,
    )
    return made


def content_security_policy(served: bool = False) -> str:
    """Return the policy of a page: no connections, and no script but its own.

    A page that is ``served`` may send its forms to the server that it comes from.
    """
    digest = base64.b64encode(hashlib.sha256(_asset("script.js").encode()).digest()).decode("ascii")
    forms = "'self'" if served else "'none'"
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:;"
        f" base-uri 'none'; form-action {forms}"
    )


def link(path: str, **asked: object) -> str:
    """Return an address of `onceproof serve`, with what it asks."""
    words = {name: value for name, value in asked.items() if value not in ("", None)}
    return f"{path}?{urlencode(words)}" if words else path


def render(report: Report, served: str = "", refresh_seconds: int = 0) -> str:
    """Return the report as one HTML page.

    ``served`` is the key of the run where `onceproof serve` shows it: its figures then lead to its scenarios.
    A page that is written again while its run goes on loads itself anew each ``refresh_seconds``; 0: never.
    """
    return (
        environment()
        .get_template("report.html")
        .render(page=arrange(report), served=served, link=link, refresh_seconds=refresh_seconds)
    )


def write(report: Report, directory: Path, refresh_seconds: int = 0) -> Path:
    """Write index.html and report.json into ``directory``; return the path of the page. Raises OSError."""
    page = render(report, refresh_seconds=refresh_seconds)
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / MODEL_NAME, encode(report))
    _replace(directory / PAGE_NAME, page.encode("utf-8"))
    return directory / PAGE_NAME


def _replace(path: Path, content: bytes) -> None:
    # Readers see the old page until the new one is complete.
    temporary = path.with_name(f".{path.name}.part")
    temporary.unlink(missing_ok=True)
    try:
        # Exclusively, so that a link in a stranger's folder leads nowhere.
        with temporary.open("xb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        # The error of a full disk names no file.
        raise OSError(error.errno, error.strerror, str(path)) from None


def read(directory: Path) -> Report:
    """Read the report.json of a directory. Raises ReportUnreadable, or OSError if there is no file."""
    path = directory / MODEL_NAME
    with path.open("rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ReportUnreadable(f"{path}: not a report: it is larger than {MOST_BYTES:,} bytes")
    return decode(text, str(path))

"""The line that the command line prints for an error of its option parser or a missing package."""

from __future__ import annotations

from collections.abc import Sequence

import typer


def missing_extra_in(error: ImportError, program: str, given: Sequence[str]) -> Exception:
    """Return the error that names the extra, where a failed import needs one; else the error itself."""
    from onceproof.engine.extras import missing_extra

    words = [word for word in given if not word.startswith("-")]
    return missing_extra(error, " ".join((program, *words[:1]))) or error


def usage_line(error: typer.TyperException) -> str:
    """Return the parser's message in one line, with the nearest option where it knows one."""
    possible = getattr(error, "possibilities", None)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "onceproof"
    message = " ".join((error.message if possible else error.format_message()).split()).rstrip(".")
    hint = f"; did you mean {' or '.join(sorted(possible))}?" if possible else ""
    message = message[:1].lower() + message[1:]
    return f"{message}{hint} (see {command} --help)"

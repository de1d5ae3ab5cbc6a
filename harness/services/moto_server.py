"""The server moto for S3 with one request at a time: run with HOST and PORT.

Rules:

- A conditional create is atomic, as in S3. By itself moto looks whether the object is there, then stores
  it, and its server has a thread per connection: of two creates at the same time both could succeed.
- The lock is taken when the whole body has come: a client that pauses while it sends blocks no other.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple
from werkzeug.wsgi import get_input_stream

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class OneAtATime:
    """An application that handles no two requests at the same time."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application
        self._lock = Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Read the request, wait for its turn, and return the whole answer."""
        environ["wsgi.input"] = io.BytesIO(get_input_stream(environ).read(-1))
        with self._lock:
            return list(self._application(environ, start_response))


def main(host: str, port: int) -> None:
    """Serve until the process is killed."""
    application = DomainDispatcherApplication(create_backend_app)
    run_simple(host, port, OneAtATime(application), threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

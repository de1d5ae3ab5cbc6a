"""Make or delete the connector through any worker that answers: connector.py CONFIG|delete PORT..."""

import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

config, *ports = sys.argv[1:]
headers = {"Content-Type": "application/json"}
problem = ""
for port in ports:
    url = f"http://127.0.0.1:{port}/connectors/copied"
    if config == "delete":
        request = Request(url, method="DELETE")
    else:
        request = Request(f"{url}/config", Path(config).read_bytes(), headers, method="PUT")
    try:
        urlopen(request, timeout=30).close()
        sys.exit()
    except OSError as error:
        # One that is not there was deleted by an earlier try.
        if isinstance(error, HTTPError) and error.code == 404:
            sys.exit()
        problem = f"{url}: {error}"
sys.exit(problem)

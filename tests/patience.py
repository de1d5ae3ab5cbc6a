"""How long a test waits for what must happen.

No test depends on how fast the machine is: it waits for a condition, and this limit only ends a test that
hangs. On a machine with thirty busy processes for each core, what takes a second here takes a minute there.
"""

from __future__ import annotations

PATIENCE_SECONDS = 600.0

"""The command as a module: ``python -m onceproof``."""

import sys

from onceproof.harness.commands.cli import main

sys.exit(main())

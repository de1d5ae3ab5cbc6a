"""The program that `make setup` runs to make the class data archive of Spark."""

from __future__ import annotations

import os
import sys

from onceproof.engine.runtime.java import find_java
from onceproof.engine.runtime.spark_class_archive import archive_for


def main() -> int:
    """Make the archive if there is none for the installed Java and Spark."""
    java = find_java(os.environ)
    if not archive_for(java).exists():
        # Importing Spark takes a second, which a set-up with nothing to do does not spend.
        from onceproof.engine.runtime.spark_class_training import train

        train(java)
    return 0


if __name__ == "__main__":
    sys.exit(main())

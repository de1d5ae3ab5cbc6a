"""The configuration of a cluster: options that hold for every job that is started there.

They stand in ``config.yaml`` in the folder that ONCEPROOF_CONF_DIR names (Flink: FLINK_CONF_DIR), or else in
``flink-conf.yaml``, the file of Flink before 1.19. A job's own options win over them. Without the variable
there are none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from onceproof.engine.configuration.configuration import Configuration
from onceproof.engine.configuration.option import ConfigurationError

CONF_DIR: Final = "ONCEPROOF_CONF_DIR"
FILE_NAME: Final = "config.yaml"
FORMER_NAME: Final = "flink-conf.yaml"


def cluster_configuration() -> Configuration:
    """Return the options of the cluster's file; none where no folder is named.

    Raises ConfigurationError, with the file and the line: there is no such file, or an option in it is wrong.
    """
    folder = os.environ.get(CONF_DIR)
    if not folder:
        return Configuration()
    path = Path(folder, FILE_NAME)
    former = Path(folder, FORMER_NAME)
    if not path.is_file() and former.is_file():
        return Configuration.from_flat_file(former)
    if not path.is_file():
        raise ConfigurationError(
            f"{CONF_DIR} names {folder}, and there is no {FILE_NAME} in it: write one, or unset the variable"
        )
    return Configuration.from_yaml_file(path)

"""The engine on Spark: an epoch, the records between two barriers, is one Spark job.

``driver`` is the job master's process, ``stages`` assigns subtasks to stages, ``epoch`` is what the driver
sends to the workers, ``worker`` and ``subtask`` run there, ``job`` runs and cancels a Spark job, and
``committing`` commits, in the driver, what completed checkpoints list.
"""

from onceproof.engine.extras import SPARK, require

require("execution.target spark", SPARK)

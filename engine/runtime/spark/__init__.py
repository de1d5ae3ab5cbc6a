"""The engine on Spark: an epoch, the records between two barriers, is one Spark job.

``driver`` is the job master's process, ``stages`` says which subtasks run in which stage, ``epoch`` what a
worker is told, ``worker`` and ``subtask`` what it does, ``job`` how a Spark job is run, called off and
understood, ``committing`` how the driver commits what complete checkpoints list.
"""

from onceproof.engine.extras import SPARK, require

require("execution.target spark", SPARK)

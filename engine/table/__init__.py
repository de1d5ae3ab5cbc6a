"""SQL and the Table API: Flink's compiled plans on the engine's operators, state and watermarks.

From a statement to a job:

1. ``planner/planner_process.py``: ``Planner.plan`` sends a ``PlanRequest`` to a child process, which runs
   ``planner/client/planner_client.py`` with a Python that has apache-flink, and returns the plan, or raises
   PlanningFailed with the planner's own words.
2. ``plans.py``: ``read_plan`` makes a ``Plan`` of ``Node``s. What the engine lacks is one UnsupportedPlan
   that names it and its place.
3. ``translation.py``: ``translate`` calls the translator of each node. Sources and sinks come from a
   ``Tables`` (``table_ends.py``), so a job, the harness and the tests put different ends to one plan.
4. ``operators.py``: ``TableOperator`` runs the ``TableFunction`` of a stateful node on keyed state and
   timers.

Rooms; each imports from itself and from those above it. What registers is added to the table of its modules
(``FUNCTION_MODULES``, ``AGGREGATE_MODULES``, ``NODE_MODULES``).

- ``types``, ``values``: logical types, their Python values, and the JSON of these
- ``ordering``, ``hash_order``: sort keys, equality, keys of counts; the order of Java's HashMap
- ``registration``: the decorator behind all tables of names
- ``plans``, ``operators``: plans as values; the operator, and the interface of stateful nodes
- ``expressions/``: ``rex`` (expressions as values), ``registry`` (``compile_expression``, ``@builder``,
  ``@strict``), a module for each area of functions; ``casts`` has ``@cast``
- ``bundles``: functions that collect changes by key, for mini-batches
- ``table_settings``, ``table_ends``: options and functions of the user; the ends of a job
- ``aggregates/``: ``registry`` (``@aggregate``), ``accumulation`` (``AggregateSet``, which nodes use)
- ``translation``, ``nodes/``: ``@translator``; a module for each area of nodes
- ``connectors/``: ``registry`` (``@source``, ``@sink``, ``@lookup``), ``message_formats``
  (``@message_format``); what the options of WITH make of the engine's sources and sinks
- ``python_values``, ``user_functions``: what functions and streams of programs see
- ``planner/``: Flink's planner as a service
- ``api/``: PyFlink's names; ``recorded`` keeps calls, ``session`` what was declared, ``ends`` joins streams
  and tables, ``names`` says what is missing

Rules:

- A record of a table is a change ``(kind, row)`` without a timestamp: event time is a column. All values are
  immutable and hashable. Timestamps are nanoseconds in one int, watermarks and timers milliseconds.
- Exchanges add nothing: a stateful node sends its input to the owner of the key itself.
- The uid of an operator is ``<node id>_<node type>``. Nodes of a plan are numbered from 1, because the
  planner counts on from statement to statement.
- A ``TableFunction`` keeps in attributes only what ``before_barrier`` flushes. Accumulators and states are
  plain data; a state that was changed in place is written back.
- Expressions are compiled to closures when the function is made, once when the plan is translated (to find
  what is unsupported) and once for each subtask. Nothing in a plan is executed.
- A function that fails the job raises FunctionFailed with Flink's class and message.
"""

"""The job of a script of SQL: its compiled plan, with the tables of a scenario at its ends.

The rules this module lives by:

- Flink restores a plan, so operators have the ids by which it finds their state in an upgrade.
- The connector of each table becomes that of scenarios (`ScenarioTables.java`); schema, key and watermarks
  stay as the plan has them.
- All operators have one parallelism, so what reads another one directly stays beside it: the changes of a key
  keep their order.
"""

import json
import struct

from pyflink.java_gateway import get_gateway

CONNECTOR = "onceproof-scenario"


class TableJob:
    """The plan of an order as a job."""

    def __init__(self, java_environment, order):
        self._java, self._order, self._tables = java_environment, order, order["tables"]
        self._scans = 0
        for node in self._tables["plan"]["nodes"]:
            for end, options in (("scanTableSource", self._source), ("dynamicTableSink", self._sink)):
                if end in node:
                    table = node[end]["table"]
                    table["resolvedTable"]["options"] = {
                        "connector": CONNECTOR,
                        **options(table["identifier"]),
                    }

    def readers(self):
        """Return how many subtasks of sources the job has."""
        return self._scans * self._order["parallelism"]

    def execution_plan(self):
        """Return what Flink would run. Raises what Flink raises."""
        gateway = get_gateway()
        table = gateway.jvm.org.apache.flink.table.api
        # Python knows no method with any number of arguments: it gives an array of them.
        return self._loaded().explain(table.ExplainFormat.TEXT, gateway.new_array(table.ExplainDetail, 0))

    def submit(self):
        """Submit the job, and return its id."""
        return self._loaded().execute().getJobClient().get().getJobID().toString()

    def _loaded(self):
        table = get_gateway().jvm.org.apache.flink.table.api
        environment = table.bridge.java.StreamTableEnvironment.create(self._java)
        for key, value in self._tables["options"].items():
            environment.getConfig().set(key, value)
        environment.getConfig().set("pipeline.name", self._order["name"])
        return environment.loadPlan(table.PlanReference.fromJsonString(json.dumps(self._tables["plan"])))

    def _source(self, identifier):
        order, source = self._order, self._tables["sources"][identifier]
        self._scans += 1
        path = f"{order['folder']}/changes-{order['start']}-{self._scans}"
        splits = source["splits"]
        _write(path, splits)
        readers = min(order["parallelism"], len(splits)) or 1
        records = sum(map(len, splits.values()))
        return {
            "mode": source["mode"],
            "name": source["name"] if self._scans == 1 else f"{source['name']}-{self._scans}",
            "records": path,
            "log": order["log"],
            "checkpoints": order["checkpoints"],
            "kept": order["kept"],
            "records-per-checkpoint": str(max(1, -(-records // readers // order["rounds"]))),
            "pause-ms": str(order["pause_ms"]),
            "endless": str(order["endless"]).lower(),
        }

    def _sink(self, identifier):
        order, sink = self._order, self._tables["sinks"][identifier]
        return {**sink, "records": f"{order['folder']}-{order['start']}-", "output": order["output"]}


def _write(path, splits):
    """Write splits as ScenarioSource.readRecords reads them, without timestamps, which tables have not."""
    with open(path, "wb") as file:
        file.write(struct.pack(">i", len(splits)))
        for split, changes in splits.items():
            name = split.encode()
            file.write(struct.pack(">i", len(name)) + name + struct.pack(">i", len(changes)))
            for change in changes:
                text = json.dumps(change).encode()
                file.write(struct.pack(">qi", 0, len(text)) + text)

"""Any program as a system under test: real processes, real SIGKILLs, judged by what appears at its output.

Rules:

- A file in TOML says all that the harness knows of the program (`model/program_file.py`). Nothing runs inside
  of it, and it needs no library of this project.
- Its checkpoints and transactions are not seen. So exactly_once (or mode), liveness, fencing of rows that
  vanish, and no_error are asked, and the properties of checkpoints are not.
- Servers at its ends are kept over scenarios; topics, databases and folders are new for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError, source_file
from onceproof.harness.model.history import History
from onceproof.harness.model.program_family import SYSTEM, ProgramFamily
from onceproof.harness.model.program_measures import ControlRun, Measured
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import applicable
from onceproof.harness.systems.flink.jobs import JobClusters
from onceproof.harness.systems.kit.incarnations import trial_folder
from onceproof.harness.systems.program.ends import ProgramServers
from onceproof.harness.systems.program.pace import LateRows
from onceproof.harness.systems.program.points import ANSWERS, CAPABILITIES, MISSING
from onceproof.harness.systems.program.preparation import prepare
from onceproof.harness.systems.program.run import ProgramRun
from onceproof.harness.systems.program.versions import versions_of


class CommandSystem:
    """Runs scenarios against programs, one after another."""

    name = SYSTEM
    capabilities = CAPABILITIES
    missing = MISSING
    answers = ANSWERS

    @staticmethod
    def refusal(family: Family) -> str:
        """Return why it cannot run a family that is no program."""
        return "it runs programs: give a FILE.toml"

    def __init__(self, folder: Path | None = None, servers: ProgramServers | None = None) -> None:
        self._folder = folder
        self._servers = servers or ProgramServers()
        self.measured: dict[str, Measured] = {}
        self._late_rows: dict[Path, LateRows] = {}
        """By the file of a program, what its trials have shown."""
        self._clusters = JobClusters()
        self._prepared: dict[Path, Mapping[str, str]] = {}
        """By the file of a program that is built, what placeholders stand for on this machine."""

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario in a new folder, and return its history; there is no trace.

        The control run of the program comes first (`control`).
        """
        if not isinstance(family, ProgramFamily):
            place = source_file(family) or family.name
            raise FamilyError(
                f"{place}: --system {SYSTEM} runs a program: give its FILE.toml instead of a family"
            )
        # A program whose command does not say how parallel it is cannot be rescaled.
        possible = CAPABILITIES if family.file.can_rescale else CAPABILITIES - {Capability.RESCALE}
        servers = family.file.servers
        faults, left = applicable(scenario.faults, possible, MISSING, servers, self._servers.immortal)
        machine = self._machine(family)
        with (
            trial_folder(self._folder) as folder,
            self._servers.ends(family, scenario, folder, machine) as ends,
        ):
            measured = self.measured[str(family.path)]
            late_rows = self._late_rows.setdefault(family.path, LateRows())
            run = ProgramRun(family, scenario, faults, ends, folder, measured, self._clusters, late_rows)
            history = run.run()
            for server in ends.servers.values():
                server.calm()
        for key, count in left.items():
            history.statistics.not_applicable[key] = history.statistics.not_applicable.get(key, 0) + count
        return history

    def control(self, family: ProgramFamily, scenario: Scenario) -> ControlRun:
        """Run a scenario without its faults, and return what it measures."""
        machine = self._machine(family)
        with (
            trial_folder(self._folder) as folder,
            self._servers.ends(family, scenario, folder, machine) as ends,
        ):
            return ProgramRun(family, scenario, (), ends, folder, None, self._clusters).control()

    def _machine(self, family: ProgramFamily) -> Mapping[str, str]:
        if family.path not in self._prepared:
            self._prepared[family.path] = prepare(family)
        return self._prepared[family.path]

    def versions(self, family: Family) -> Iterable[tuple[str, str]]:
        """Yield the versions of what a program runs with."""
        return versions_of(family) if isinstance(family, ProgramFamily) else ()

    def close(self) -> None:
        """Stop the servers and clusters that programs have needed."""
        self._servers.close()
        self._clusters.close()

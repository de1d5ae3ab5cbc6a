"""The command line of `onceproof`: subcommands, options and exit codes. Their bodies are in this package.

The rules this module lives by:

- Slow imports stand inside the subcommands, so that `onceproof --help` answers at once.
- Stdout carries results only, with --json exactly one document. Everything else goes to stderr.
- An error is one line on stderr and an exit code (`harness.model.exit_codes`). Usage errors of the option
  parser exit with 4 like all others, not with the parser's 2.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.models import CommandInfo, TyperInfo

from onceproof.harness.commands import completion as completions
from onceproof.harness.commands.endings import interruptible, missing_extra_in, usage_line
from onceproof.harness.commands.job_cli import checkpoints, jobs
from onceproof.harness.commands.mutants_cli import mutants
from onceproof.harness.commands.reports_cli import merge, serve
from onceproof.harness.commands.runs_cli import hunt, nightly, upgrade
from onceproof.harness.commands.script_options import (
    Arguments,
    FlinkVersion,
    JobName,
    Pyflink,
    PyflinkOnTrial,
    Samples,
    addresses_of,
    with_arguments,
    with_flink_version,
)
from onceproof.harness.commands.services_cli import services
from onceproof.harness.commands.setup_cli import completion, doctor, flink, init
from onceproof.harness.commands.shared_options import (
    AsJson,
    AsProgram,
    Bisect,
    CheckedFamilies,
    ComparedFamilies,
    ComparesSql,
    ExplainOut,
    ExplainShrinkRuns,
    Families,
    FirstOfShare,
    Junit,
    Master,
    MaxTime,
    OneFamily,
    PropertiesFile,
    RunFolder,
    RunSeed,
    RunSystem,
    Scenarios,
    ScenariosOfEach,
    ScenarioTime,
    Seed,
    ShareOfRun,
    ShownSystem,
    ShrinkRuns,
    SparkSettings,
    Subject,
    Systems,
    Trace,
    TracedTasks,
    UntilExhausted,
    Workers,
    typed_command,
)
from onceproof.harness.model import exit_codes
from onceproof.harness.model.exit_codes import BROKEN_PIPE, INTERRUPTED, USAGE
from onceproof.harness.model.seeds import Share

if TYPE_CHECKING:
    from onceproof.harness.nightly.night import OwnNight

BISECT = "--bisect"
DEBUG = "--debug"
SENSITIVITY_FOLDER = Path("reports", "out", "sensitivity")
EXPLAIN_FOLDER = Path("reports", "out", "explain")

EVERYDAY: Final = ("init", "check", "run", "upgrade", "replay", "explain", "serve", "doctor")
"""The commands that `--help` shows first, in the order in which a user meets them."""

app = typer.Typer(
    name="onceproof",
    help="Prove, or disprove, that a stateful stream job counts every record exactly once.",
    epilog="Exit codes: 0 passed, 1 a property failed, 3 internal error, 4 wrong usage or bad input, 5"
    " nothing or too little ran, 130 interrupted, 143 ended by SIGTERM.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"onceproof {version('onceproof')}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option(DEBUG, help="Print the traceback of an internal error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Prove, or disprove, that a stateful stream job counts every record exactly once."""


@app.command()
def run(
    families: Families = None,
    scenarios: Scenarios = None,
    max_time: MaxTime = None,
    seed: RunSeed = None,
    system: RunSystem = None,
    workers: Workers = None,
    share: ShareOfRun = 1,
    first: FirstOfShare = 0,
    until_exhausted: UntilExhausted = None,
    shrink_runs: ShrinkRuns = None,
    scenario_time: ScenarioTime = None,
    out: RunFolder = None,
    junit: Junit = None,
    sample: Samples = None,
    job: JobName = None,
    argument: Arguments = None,
    pyflink: PyflinkOnTrial = Pyflink.engine,
    flink_version: FlinkVersion = None,
    as_json: AsJson = False,
) -> None:
    """Run scenarios on this machine, check every property, and write a report."""
    from onceproof.harness.commands.run import run_command
    from onceproof.harness.settings.planning import RUN, RunOptions, plan_run
    from onceproof.harness.settings.project_settings import load_settings

    options = RunOptions(
        families=with_flink_version(addresses_of(families, sample, job, argument, pyflink), flink_version),
        scenarios=scenarios,
        max_time=max_time,
        seed=seed,
        system=system,
        workers=workers,
        share=Share(share, first),
        until_exhausted=until_exhausted,
        shrink_runs=shrink_runs,
        scenario_time=scenario_time,
        out=out,
        junit=junit,
        as_json=as_json,
        command=typed_command(),
    )
    raise typer.Exit(run_command(plan_run(load_settings(), RUN, options)))


@app.command()
def compare(
    families: ComparedFamilies,
    systems: Systems,
    scenarios: ScenariosOfEach = 20,
    seed: RunSeed = None,
    workers: Workers = None,
    shrink_runs: ShrinkRuns = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results.", show_default="reports/out/compare")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the same scenarios on several systems, and compare the results."""
    from onceproof.harness.commands.compare import compare_command
    from onceproof.harness.settings.comparison_plan import plan_comparison
    from onceproof.harness.settings.planning import RunOptions
    from onceproof.harness.settings.project_settings import load_settings

    options = RunOptions(
        families=families,
        scenarios=scenarios,
        seed=seed,
        workers=workers,
        shrink_runs=shrink_runs,
        out=out,
        as_json=as_json,
        command=typed_command(),
    )
    raise typer.Exit(compare_command(plan_comparison(load_settings(), options, systems)))


@app.command()
def check(
    families: CheckedFamilies,
    scenarios: Annotated[
        int, typer.Option("--scenarios", min=1, help="Number of scenarios of each family.")
    ] = 50,
    seed: Seed = 0,
    sql: ComparesSql = None,
    scenario_time: ScenarioTime = None,
    sample: Samples = None,
    job: JobName = None,
    argument: Arguments = None,
    pyflink: PyflinkOnTrial = Pyflink.engine,
    as_json: AsJson = False,
) -> None:
    """Run families without faults, and say what to fix in them."""
    from onceproof.harness.commands.check import check_command
    from onceproof.harness.settings.planning import budget_of
    from onceproof.harness.settings.project_settings import load_settings

    budget = budget_of(load_settings(), scenario_time)
    asked = addresses_of(families, sample, job, argument, pyflink)
    raise typer.Exit(check_command(asked, scenarios, seed, sql, as_json, budget))


@app.command()
def campaign(
    families: Families = None,
    scenarios: Scenarios = None,
    max_time: MaxTime = None,
    seed: RunSeed = None,
    scenario_time: ScenarioTime = None,
    master: Master = None,
    conf: SparkSettings = None,
    properties_file: PropertiesFile = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="ADDRESS",
            help="Where executors write what they ran: an address that all of them reach, such as"
            " s3://BUCKET/PATH. Repeated after an interrupt, the same command resumes from it.",
            show_default="the folder trials in --out",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the results.", show_default="reports/out/campaign"),
    ] = None,
    junit: Junit = None,
    sample: Samples = None,
    job: JobName = None,
    argument: Arguments = None,
    as_json: AsJson = False,
) -> None:
    """Simulate scenarios on Spark executors, and check them in Spark SQL as well."""
    from onceproof.engine.extras import SPARK, require

    require("onceproof campaign", SPARK)
    from onceproof.engine.runtime.spark_settings import SparkOptions
    from onceproof.harness.campaign.campaign_plan import CampaignPlan
    from onceproof.harness.commands.campaign import campaign_command
    from onceproof.harness.settings.planning import CAMPAIGN, RunOptions, plan_run
    from onceproof.harness.settings.project_settings import load_settings

    options = RunOptions(
        families=addresses_of(families, sample, job, argument),
        scenarios=scenarios,
        max_time=max_time,
        seed=seed,
        scenario_time=scenario_time,
        out=out,
        junit=junit,
        as_json=as_json,
        command=typed_command(),
    )
    plan = CampaignPlan(
        plan_run(load_settings(), CAMPAIGN, options),
        spark=SparkOptions.of(master, conf or (), properties_file),
        store=store,
    )
    raise typer.Exit(campaign_command(plan))


@app.command()
def replay(
    subject: Subject,
    family: OneFamily = None,
    trace: Trace = False,
    task: TracedTasks = None,
    whole: Annotated[bool, typer.Option("--whole", help="Print every event of the run.")] = False,
    system: RunSystem = None,
    as_json: AsJson = False,
    as_program: AsProgram = False,
    bisect: Bisect = False,
    sample: Samples = None,
    job: JobName = None,
    argument: Arguments = None,
) -> None:
    """Run one scenario again, with the same verdict and the same trace hash."""
    from onceproof.harness.commands.replay import replay_command

    family = _of_script(family, sample, job, argument)
    raise typer.Exit(replay_command(subject, family, trace, system, as_json, task or (), whole, as_program))


@app.command()
def explain(
    subject: Subject,
    family: OneFamily = None,
    system: RunSystem = None,
    out: ExplainOut = EXPLAIN_FOLDER,
    shrink_runs: ExplainShrinkRuns = None,
    sample: Samples = None,
    job: JobName = None,
    argument: Arguments = None,
    as_json: AsJson = False,
) -> None:
    """Shrink a failing scenario, explain why it fails, and write a page about it."""
    from onceproof.harness.commands.explain import explain_command

    family = _of_script(family, sample, job, argument)
    raise typer.Exit(explain_command(subject, family, system, out, shrink_runs, typed_command(), as_json))


@app.command()
def evidence(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of results, or of the evidence of one failure."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The archive.", show_default="evidence.tar.gz in DIR"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Pack the evidence of failures on a real system, with a draft of an issue for each."""
    from onceproof.harness.commands.evidence import evidence_command

    raise typer.Exit(evidence_command(folder, out, as_json))


@app.command()
def sensitivity(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder of the report to which the result is added.", show_default=True
        ),
    ] = SENSITIVITY_FOLDER,
    scenarios: Annotated[
        int, typer.Option("--scenarios", min=0, help="Number of scenarios of the experiment.")
    ] = 2000,
    seed: Seed = 0,
    family: Annotated[
        str,
        typer.Option("--family", metavar="FAMILY|FILE.py", help="The family that runs."),
    ] = "word_count",
    master: Master = None,
    conf: SparkSettings = None,
    properties_file: PropertiesFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure on Spark which parameters drive the cost of recovery."""
    from onceproof.engine.extras import SENSITIVITY, SPARK, require

    require("onceproof sensitivity", SPARK, SENSITIVITY)
    from onceproof.engine.runtime.spark_settings import SparkOptions
    from onceproof.harness.commands.sensitivity import sensitivity_command

    spark = SparkOptions.of(master, conf or (), properties_file)
    raise typer.Exit(sensitivity_command(folder, family, scenarios, seed, spark, as_json, typed_command()))


@app.command()
def families(as_json: AsJson = False) -> None:
    """List the built-in families."""
    from onceproof.harness.commands.table_commands import families_command

    raise typer.Exit(families_command(as_json))


@app.command()
def faults(
    name: ShownSystem = None,
    as_json: AsJson = False,
) -> None:
    """List the kinds of faults, and how each system carries them out, or why it cannot."""
    from onceproof.harness.commands.table_commands import faults_command

    raise typer.Exit(faults_command([name] if name else (), as_json))


for _command_of_its_module in (hunt, nightly, mutants, merge, serve, init, doctor, completion, upgrade):
    app.command()(_command_of_its_module)
app.add_typer(checkpoints, name="checkpoints")
app.add_typer(flink, name="flink")
app.add_typer(jobs, name="job")
app.add_typer(services, name="services")


def _everyday_first() -> None:
    """Put the everyday commands first in `--help`, under a heading of their own."""
    for command in app.registered_commands:
        assert command.callback is not None
        command.name = command.name or command.callback.__name__
    infos: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    for info in infos:
        info.rich_help_panel = "Everyday commands" if info.name in EVERYDAY else "Other commands"
    app.registered_commands.sort(key=lambda command: (*EVERYDAY, command.name).index(command.name))


_everyday_first()


def _of_script(
    family: str | None, samples: Sequence[str] | None, job: str | None, arguments: Sequence[str] | None
) -> str | None:
    """Return the address of a family with what the options say of a script."""
    found = addresses_of([family] if family else [], samples, job, arguments)
    return found[0] if found else None


def main(arguments: Sequence[str] | None = None, night: OwnNight | None = None) -> int:
    """Run the command line and return its exit code.

    ``arguments`` are those after the command's name; None stands for those of the process. ``night`` has
    further parts for `nightly`.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    # The user adds --debug to the end of the line that failed, so it may stand anywhere.
    given = with_arguments([argument for argument in given if argument != DEBUG])
    if completions.is_asked():
        return completions.answer(app)
    if not given:
        main(["--help"])
        return _print_error("no command is given", USAGE)
    with interruptible() as interruption:
        code = interruption.exit_code(_run(app, "onceproof", given, debug, night))
    return exit_codes.code_for_bisect(code) if BISECT in given else code


def run_alone(program: str, command: Callable[..., None], arguments: Sequence[str]) -> int:
    """Run a function as a command line of its own, with the errors and exit codes of `onceproof`."""
    single = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
    single.command()(command)
    given = [argument for argument in arguments if argument != DEBUG]
    with interruptible() as interruption:
        return interruption.exit_code(_run(single, program, given, DEBUG in arguments, None))


def _run(app: typer.Typer, program: str, given: list[str], debug: bool, night: OwnNight | None) -> int:
    """Run the command line, and return its exit code; an error is a line."""
    try:
        command = typer.main.get_command(app)
        code = command.main(given, prog_name=program, standalone_mode=False, obj=night)
        sys.stdout.flush()
        return int(code or 0)
    except typer.TyperException as error:
        return _print_error(usage_line(error), USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return _print_error("interrupted", INTERRUPTED)
    except SystemExit as error:
        # The parser exits when a pipe is closed. Any other exit is called by a file of the user.
        if isinstance(error.__context__, BrokenPipeError):
            return BROKEN_PIPE
        return _print_error(
            "the file of a family or of mutants ended the program: remove its call of sys.exit()", USAGE
        )
    except BrokenPipeError:
        # The reader has closed the pipe. The interpreter must not fail at flushing the rest into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        if debug:
            traceback.print_exc()
        error = missing_extra_in(error, program, given) if isinstance(error, ImportError) else error
        return _print_error(exit_codes.line_of(error), exit_codes.exit_code_of(error))


def _print_error(line: str, code: int) -> int:
    print(line if line.startswith("onceproof ") else f"onceproof: {line}", file=sys.stderr)
    return code

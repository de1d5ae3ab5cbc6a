"""The command `onceproof`: its options, and what becomes of errors. Their bodies are beside it.

The rules this module lives by:

- Nothing dear is imported before it is known what is asked for: `onceproof --help` answers at once.
- Stdout carries results only, and with --json exactly one document; all else goes to stderr.
- An error is one line and an exit code (`harness.model.exit_codes`). A usage error of the option parser,
  which would exit with 2, exits with 4 like every other.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from onceproof.harness.commands.job_cli import checkpoints, jobs
from onceproof.harness.commands.options import (
    AsJson,
    ExplainMaxTime,
    ExplainOut,
    Families,
    Junit,
    MaxTime,
    OneFamily,
    RunSeed,
    RunSystem,
    Scenarios,
    Seed,
    ShrinkMaxTime,
    ShrinkTime,
    Subject,
    System,
    Workers,
)
from onceproof.harness.model.exit_codes import BROKEN_PIPE, INTERRUPTED, USAGE, exit_code_of, line_of

DEBUG = "--debug"
SENSITIVITY_FOLDER = Path("reports", "out", "sensitivity")
EXPLAIN_FOLDER = Path("reports", "out", "explain")
FLIGHTS_FOLDER = Path("reports", "out", "flights-alone")

app = typer.Typer(
    name="onceproof",
    help="Proves, or disproves, that a stateful stream job counts every record exactly once.",
    epilog="Exit codes: 0 passed, 1 a property failed, 3 internal error, 4 wrong usage or bad input, 5"
    " nothing ran, 130 interrupted.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option(DEBUG, help="Print the traceback of an internal error.")] = False,
) -> None:
    """Proves, or disproves, that a stateful stream job counts every record exactly once."""


@app.command()
def run(
    families: Families = None,
    scenarios: Scenarios = None,
    max_time: MaxTime = None,
    seed: RunSeed = None,
    system: RunSystem = None,
    workers: Workers = None,
    shrink_time: ShrinkTime = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where results go.", show_default="reports/out/run")
    ] = None,
    junit: Junit = None,
    as_json: AsJson = False,
) -> None:
    """Run scenarios of families on this machine and write a report."""
    from onceproof.harness.commands.run import run_command
    from onceproof.harness.settings.project_settings import load_settings
    from onceproof.harness.settings.run_plan import RUN, plan

    wanted = plan(
        load_settings(),
        RUN,
        families=families,
        scenarios=scenarios,
        max_time=max_time,
        seed=seed,
        system=system,
        workers=workers,
        shrink_time=shrink_time,
        out=out,
        junit=junit,
        as_json=as_json,
        command=_command(),
    )
    raise typer.Exit(run_command(wanted))


@app.command()
def campaign(
    families: Families = None,
    scenarios: Scenarios = None,
    max_time: MaxTime = None,
    seed: RunSeed = None,
    master: Annotated[str | None, typer.Option("--master", metavar="URL", help="Spark's master.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where results go.", show_default="reports/out/campaign")
    ] = None,
    junit: Junit = None,
    as_json: AsJson = False,
) -> None:
    """Run a campaign on Spark: simulated on executors, judged by Spark SQL as well."""
    from onceproof.harness.commands.campaign import campaign_command
    from onceproof.harness.settings.project_settings import load_settings
    from onceproof.harness.settings.run_plan import CAMPAIGN, plan

    wanted = plan(
        load_settings(),
        CAMPAIGN,
        families=families,
        scenarios=scenarios,
        max_time=max_time,
        seed=seed,
        out=out,
        junit=junit,
        as_json=as_json,
        command=_command(),
    )
    raise typer.Exit(campaign_command(wanted, master))


@app.command()
def nightly(
    max_time: Annotated[
        float | None,
        typer.Option(
            "--max-time",
            min=0,
            metavar="SECONDS",
            help="For how long the campaign runs.",
            show_default="60",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Decides everything; if not given, each night another one.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where results go.", show_default="reports/out")
    ] = None,
    junit: Junit = None,
) -> None:
    """Do the night's work: a year of flights under kills, then a campaign; write the report of both."""
    from onceproof.harness.commands.campaign import nightly_command
    from onceproof.harness.settings.project_settings import load_settings

    raise typer.Exit(nightly_command(load_settings(), max_time, seed, out, junit, _command()))


@app.command()
def flights(
    system: Annotated[
        str, typer.Option("--system", help="What stands trial: local, spark or spark-cluster.")
    ] = "spark-cluster",
    seed: Annotated[int, typer.Option("--seed", help="Decides who dies where.")] = 0,
    out: Annotated[Path, typer.Option("--out", help="Where rows and checkpoints go.")] = FLIGHTS_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Run a year of real flights under kills, and compare the rows with the oracle."""
    from onceproof.harness.commands.flights import flights_command

    raise typer.Exit(flights_command(system, seed, out, as_json, _command()))


@app.command("enumerate")
def enumerate_faults(
    families: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FAMILY|FILE.py]...", help="Families; word_count if none is named."),
    ] = None,
    share: Annotated[
        int, typer.Option("--share", min=1, metavar="N", help="One unit of so many, for a shorter run.")
    ] = 1,
    first: Annotated[
        int,
        typer.Option(
            "--first", min=0, metavar="N", help="Which of the shares, from 0 on, modulo their number."
        ),
    ] = 0,
    workers: Workers = None,
    out: Annotated[Path, typer.Option("--out", help="Where failures go.")] = Path(
        "reports", "out", "enumerate"
    ),
    as_json: AsJson = False,
) -> None:
    """Run every fault and every pair of faults of the smallest jobs."""
    from onceproof.harness.commands.enumerate import DEFAULT_FAMILIES, enumerate_command
    from onceproof.harness.settings.project_settings import load_settings

    known = load_settings().known
    raise typer.Exit(
        enumerate_command(families or DEFAULT_FAMILIES, share, first, workers, out, known, as_json)
    )


@app.command()
def replay(
    subject: Subject,
    family: OneFamily = None,
    trace: Annotated[bool, typer.Option("--trace", help="Tell what happened, step by step.")] = False,
    system: System = "simulated",
    as_json: AsJson = False,
) -> None:
    """Run one scenario again: same verdict, same trace hash."""
    from onceproof.harness.commands.replay import replay_command

    raise typer.Exit(replay_command(subject, family, trace, system, as_json))


@app.command()
def shrink(
    subject: Subject,
    family: OneFamily = None,
    system: System = "simulated",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where it goes.")] = None,
    max_time: ShrinkMaxTime = None,
) -> None:
    """Make a failing scenario as small as it gets."""
    from onceproof.harness.commands.replay import shrink_command

    raise typer.Exit(shrink_command(subject, family, system, out, max_time))


@app.command()
def explain(
    subject: Subject,
    family: OneFamily = None,
    system: System = "simulated",
    out: ExplainOut = EXPLAIN_FOLDER,
    max_time: ExplainMaxTime = None,
) -> None:
    """Tell why a scenario fails, and write a page of it; where runs are real it is shrunk before."""
    from onceproof.harness.commands.explain import explain_command

    raise typer.Exit(explain_command(subject, family, system, out, max_time, _command()))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where a run left its results.")],
    junit: Junit = None,
) -> None:
    """Render the report of a run again, from its report.json."""
    from onceproof.harness.commands.listing import report_command

    raise typer.Exit(report_command(folder, junit))


@app.command()
def sensitivity(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder whose report it joins.", show_default=True)
    ] = SENSITIVITY_FOLDER,
    scenarios: Annotated[int, typer.Option("--scenarios", min=0, help="How many scenarios.")] = 2000,
    seed: Seed = 0,
    family: Annotated[
        str, typer.Option("--family", metavar="FAMILY|FILE.py", help="One whose records can be given a key.")
    ] = "word_count",
    master: Annotated[str | None, typer.Option("--master", metavar="URL", help="Spark's master.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find out by an experiment on Spark which parameters drive the cost of recovery."""
    from onceproof.harness.commands.sensitivity import sensitivity_command

    raise typer.Exit(sensitivity_command(folder, family, scenarios, seed, master, as_json, _command()))


@app.command()
def families(as_json: AsJson = False) -> None:
    """List the built-in families."""
    from onceproof.harness.commands.listing import families_command

    raise typer.Exit(families_command(as_json))


@app.command()
def mutants(
    families: Families = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID", help="This one; repeatable.")
    ] = None,
    load: Annotated[Path | None, typer.Option("--load", metavar="FILE.py", help="Mutants of yours.")] = None,
    scenarios: Annotated[int, typer.Option("--scenarios", min=1, help="At most so many for each.")] = 2000,
    seed: Seed = 0,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Measure which planted bugs of the engine are found, how soon, and how small."""
    from onceproof.harness.commands.listing import mutants_command

    raise typer.Exit(mutants_command(only or (), load, families or (), scenarios, seed, workers, as_json))


@app.command()
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="All if none is named.")
    ] = None,
    as_json: AsJson = False,
    large: Annotated[
        bool, typer.Option("--large", help="Also what takes minutes and gigabytes of disk (state, spark).")
    ] = False,
) -> None:
    """Measure speed, beside a floor or a peer in the same run."""
    from onceproof.harness.commands.listing import bench_command

    raise typer.Exit(bench_command(names or (), as_json, large))


app.add_typer(checkpoints, name="checkpoints")
app.add_typer(jobs, name="job")


def _command() -> str:
    """Return the command as it was typed."""
    import shlex

    return shlex.join(("onceproof", *sys.argv[1:]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    # It may stand anywhere: whoever needs it has just typed the rest of the line.
    given = [argument for argument in given if argument != DEBUG]
    if not given:
        main(["--help"])
        return _tell("no command is given", USAGE)
    try:
        code = typer.main.get_command(app).main(given, prog_name="onceproof", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except typer.TyperException as error:
        return _tell(_usage_line(error), USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return _tell("interrupted", INTERRUPTED)
    except SystemExit as error:
        # The parser answers a closed pipe with an exit of its own; any other is called by somebody's file.
        if isinstance(error.__context__, BrokenPipeError):
            return BROKEN_PIPE
        return _tell("the file of a family or of mutants ended the program", USAGE)
    except BrokenPipeError:
        # Whoever read the results has seen enough; the interpreter must not fail at flushing the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _tell(line_of(error), exit_code_of(error))


def _tell(line: str, code: int) -> int:
    print(f"onceproof: {line}", file=sys.stderr)
    return code


def _usage_line(error: typer.TyperException) -> str:
    """Return the parser's message in one line, with the nearest option where it knows one."""
    possible = getattr(error, "possibilities", None)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "onceproof"
    said = " ".join((error.message if possible else error.format_message()).split()).rstrip(".")
    hint = f"; did you mean {' or '.join(sorted(possible))}?" if possible else ""
    said = said[:1].lower() + said[1:]
    return f"{said}{hint} (see {command} --help)"

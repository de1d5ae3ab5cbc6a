"""`onceproof serve`: pages, search, replays, and what the server refuses."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.commands.cli import main
from onceproof.harness.commands.serve import RunServer
from onceproof.harness.model.exit_codes import USAGE
from onceproof.harness.reporting.served_runs import RunCatalogue
from onceproof.harness.reporting.served_scenarios import NotServed, ScenarioReplays
from onceproof.harness.trials.output_files import OUTCOMES
from onceproof.reports.model import EXPLANATION_TITLE, Facts, Failure, Night, Report
from onceproof.reports.render import write
from onceproof.reports.served import index_page
from tests.patience import PATIENCE_SECONDS

TOTALS = Path(__file__).parents[3] / "scenarios" / "programs" / "totals" / "totals.toml"

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed in ("1", "2"):
        words = ("--scenarios", "40", "-n", "1", "--seed", seed, "--out", str(folder / f"r{seed}"))
        assert main(["run", "word_count", "page_views", *words]) == 0
    # What a stranger may have left there.
    (folder / "damaged").mkdir()
    (folder / "damaged" / "report.json").write_text("{", encoding="utf-8")
    (folder / "linked").symlink_to(folder / "r1")
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe" / "report.json")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunServer]:
    with RunServer(folder, 0) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


def ask(server: RunServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE_SECONDS)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=names)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def outcomes(folder: Path) -> list[Any]:
    return [from_line(line) for line in (folder / "r1" / OUTCOMES).read_bytes().splitlines()]


def test_index_lists_the_runs_and_says_what_cannot_be_read(server: RunServer) -> None:
    status, page = ask(server, "/")
    assert status == 200
    assert 'href="/run?run=r1"' in page
    assert 'href="/run?run=r2"' in page
    assert "not a report" in page
    assert "linked" not in page
    assert "pipe" not in page
    # Two runs make a trend.
    assert "2 nights and runs" in page


def test_page_of_a_run_leads_to_its_scenarios(server: RunServer) -> None:
    status, page = ask(server, "/run?run=r1")
    assert status == 200
    assert 'href="/search?run=r1&amp;family=word_count"' in page
    assert "fault=kill" in page


def test_search_finds_by_family_seed_fault_and_situation(server: RunServer, folder: Path) -> None:
    catalogue = server.catalogue
    all_of = outcomes(folder)
    struck = next(each for each in all_of if each.coverage and each.situations)
    pair = next(iter(struck.coverage))
    for asked, expected in (
        ("family=page_views", [each for each in all_of if each.family == "page_views"]),
        (f"seed={struck.seed}", [struck]),
        (f"fault={pair}", [each for each in all_of if each.coverage.get(pair)]),
        (
            f"situation={struck.situations[0]}",
            [each for each in all_of if struck.situations[0] in each.situations],
        ),
        ("verdict=failed", []),
    ):
        status, page = ask(server, f"/search?run=r1&{asked.replace(' ', '+')}")
        assert status == 200
        count = len(expected)
        assert f">{count} scenario{'' if count == 1 else 's'} found</h1>" in page, asked
    assert catalogue.folder("r1") == folder / "r1"


def test_scenario_of_a_run_is_replayed_and_drawn(server: RunServer, folder: Path) -> None:
    outcome = outcomes(folder)[0]
    status, page = ask(server, f"/scenario?run=r1&family={outcome.family}&seed={outcome.seed}")
    assert status == 200
    assert "Every property holds." in page
    assert "the same, step by step, as in the run" in page
    assert 'id="diagram"' in page
    assert f"onceproof replay {outcome.seed} --family {outcome.family}" in page


def test_failures_are_found_by_property_and_drawn_with_their_cause(
    tmp_path: Path, forgetful: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--scenarios", "12", "-n", "1", "--shrink-runs", "0", "--out", "runs/broken")
    assert main(["run", "forgetful.py", *words]) == 1
    catalogue = RunCatalogue(Path("runs"))
    [entry] = catalogue.refresh()
    assert entry.status == "failed"
    for families, status in (((), 404), (("forgetful.py",), 200)):
        with RunServer(Path("runs"), 0, families) as server:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            _, found = ask(server, "/search?property=exactly_once")
            assert "exactly_once, " in found
            failed = [
                each
                for line in Path("runs", "broken", OUTCOMES).read_bytes().splitlines()
                if not (each := from_line(line)).passed
            ]
            code, page = ask(server, f"/scenario?run=broken&family=forgetful&seed={failed[0].seed}")
            # A name in a file of results loads nothing.
            assert code == status
            if status == 404:
                assert "comes from forgetful.py" in page
                assert "start the server with --family forgetful.py" in page
            else:
                assert "Cause." in page
            server.shutdown()


def test_scenario_of_a_program_names_the_command_that_runs_it_again() -> None:
    replays = ScenarioReplays([str(TOTALS)])
    with pytest.raises(NotServed, match="a program, which the simulation does not run") as refused:
        replays.replay("totals", 5)
    assert f"onceproof replay 5 --family {TOTALS} --system command" in str(refused.value)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/absent", 404),
        ("/run?run=../r1", 404),
        ("/run?run=/etc", 404),
        ("/run?run=linked", 404),
        ("/run?run=damaged", 404),
        ("/..%2f..%2fetc/passwd", 404),
        ("/search?path=/etc", 400),
        ("/scenario?family=word_count&seed=five", 400),
        ("/scenario?family=word_count&seed=99999999999999999999", 404),
        ("/scenario?family=../../x.py&seed=5", 404),
        (f"/search?family={'x' * 5000}", 414),
        ("/?" + "&".join(f"a{number}=1" for number in range(40)), 400),
    ],
)
def test_what_is_not_there_is_a_page_of_one_sentence(server: RunServer, path: str, status: int) -> None:
    code, page = ask(server, path)
    assert code == status
    assert "Traceback" not in page
    assert "root:" not in page


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_server_changes_nothing(server: RunServer, method: str) -> None:
    status, _ = ask(server, "/", method)
    assert status == 405


def test_other_names_and_other_sites_are_refused(server: RunServer) -> None:
    assert ask(server, "/", Host=f"evil.example:{server.server_port}")[0] == 421
    assert ask(server, "/scenario?family=word_count&seed=5", Sec_Fetch_Site="cross-site")[0] == 403
    # A link to the index may stand in a mail.
    assert ask(server, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200
    assert ask(server, "/", Host=f"localhost:{server.server_port}")[0] == 200


def test_server_listens_on_the_loopback_interface_only(server: RunServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.socket.family == socket.AF_INET


def test_an_explanation_is_listed_apart_and_is_no_failed_run(tmp_path: Path) -> None:
    failure = Failure(
        family="counts", property="exactly_once", anomaly="lost", replay="", sentence="Row (a, 1) is lost."
    )
    explained = Report(title=EXPLANATION_TITLE, facts=Facts(scenarios=1), failures=(failure,))
    write(explained, tmp_path / "explain")
    write(Report(facts=Facts(scenarios=3)), tmp_path / "run")
    with RunServer(tmp_path, 0) as server:
        catalogue = server.catalogue
        shown = index_page("out", catalogue.refresh(), catalogue.nights(), ("", ""))
        assert len(catalogue.nights()) == 1
    assert "1 run<" in shown
    runs, explanations = shown.split('<section id="explanations"')
    assert "Failed</td>" not in runs.split('<section id="runs"')[1]
    assert "1 explanation<" in explanations
    assert "counts: Row (a, 1) is lost." in explanations


def test_nights_of_all_histories_are_one_trend_of_any_span(tmp_path: Path) -> None:
    days = [f"2026-11-{day:02d} 02:17:05 UTC" for day in range(1, 21)]
    nights = tuple(Night(started=day, scenarios=100, seed=number) for number, day in enumerate(days))
    for last in (10, 20):
        facts = Facts(scenarios=100, seed=last - 1, started=days[last - 1])
        write(Report(facts=facts, nights=nights[last - 10 : last]), tmp_path / f"night-{last}")
    shutil.copytree(tmp_path / "night-20", tmp_path / "copy")
    catalogue = RunCatalogue(tmp_path)
    assert len(catalogue.refresh()) == 3
    assert [night.started for night in catalogue.nights()] == days
    assert [night.started for night in catalogue.nights("2026-11-05", "2026-11-07")] == days[4:7]


def test_command_prints_its_address_and_ends_at_ctrl_c(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(server: RunServer, poll_interval: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunServer, "serve_forever", interrupted)
    Path("runs").mkdir()
    ended = onceproof("serve", "runs", "--port", "0", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["runs"] == 0
    refused = onceproof("serve", "absent")
    assert (refused.code, refused.error) == (
        USAGE,
        "onceproof: absent: no such folder: name one with runs in it, such as reports/out\n",
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = onceproof("serve", "runs", "--port", port)
    assert refused.code == USAGE
    assert f"--port {port}" in refused.error

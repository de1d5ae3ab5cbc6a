"""Files of programs on trial: what they may say, and one line for each mistake in them."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from onceproof.harness.commands.script_options import upgrade_address
from onceproof.harness.generation.program_faults import with_program_faults
from onceproof.harness.model.exit_codes import FOLLOWING, line_of
from onceproof.harness.model.family import NOTHING_DECLARED, FamilyError, options_of
from onceproof.harness.model.family_places import address_of, default_system, load_family, system_of_program
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_file import ProgramFileError, filled, read_program_file
from onceproof.harness.trials.trial import check_family, scenario_of, try_scenario

PLAIN = """
[program]
command = ["{python}", "job.py"]
[input]
kind = "files"
[output]
kind = "files"
"""
WRITER = """
[[process]]
name = "writer"
command = ["write"]
"""
CUT = """
[[fault]]
name = "cut"
command = ["cut"]
"""
ORACLE = """
from onceproof import Workload
record_schema = "word STRING"
row_schema = "word STRING, n BIGINT"
def generate(random):
    return Workload({"words": [(0, "ant")]})
def expected(records, declared):
    return [("ant", 1)]
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "job.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_file_of_seven_lines_is_enough(write):
    file = read_program_file(write(PLAIN))
    assert file.program.command == ("{python}", "job.py")
    assert file.points == ("committed", "restored", "element")
    assert not file.can_rescale
    assert file.servers == ()


def test_marks_of_any_name_and_parts_that_are_killed_alone(write):
    never = f'{WRITER}restart = "never"\nalone = false\n{WRITER.replace("writer", "reader")}'
    text = PLAIN.replace("[input]", f'parts = ["x"]\n{never}[marks]\nflushed = "f"\ncompleted = "c"\n[input]')
    file = read_program_file(write(text))
    assert file.own_marks == ("flushed",)
    assert file.points == ("completed", "committed", "restored", "element")
    assert [each.name for each in file.processes] == ["program", "writer", "reader"]
    assert file.alone == ("program", "reader", "x")


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("[input]", "[inputs]", r"unknown field inputs; did you mean input\?"),
        ("command", "comand", r"unknown field program\.comand; did you mean command\?"),
        ('[input]\nkind = "files"\n', "", r"missing field input"),
        ('["{python}", "job.py"]', "[]", r"program\.command: expected array of length >= 1"),
        ('["{python}", "job.py"]', '"job.py"', r"program\.command: expected array, got str"),
        (
            "{python}",
            "{pyton}",
            r"program\.command\[0\]: \{pyton\} stands for nothing; did you mean python\?",
        ),
        ('command = ["{python}", "job.py"]', "", r"missing field program, how it starts; or "),
        (
            "[input]",
            '[marks]\nbytes_written = "x"\n[input]',
            r"marks: 'bytes_written' is seen without a mark",
        ),
        ("[input]", f"{WRITER}{WRITER}[input]", r"process: the name 'writer' stands twice"),
        ("[input]", f"{WRITER}redy = 'x'\n[input]", r"unknown field process\.redy; did you mean ready\?"),
        ("[input]", f"{WRITER.replace('writer', '../w')}[input]", r"process\[.*name: expected str matching"),
        (
            'kind = "files"\n[o',
            f'kind = "stdin"\n{WRITER}[o',
            r"process: only program\.command can have 'stdin' or 'stdout' at its ends",
        ),
        ("[input]", '[[fault]]\nname = "cut"\n[input]', r"fault 'cut': give it a command or a request"),
        ("[input]", f"{CUT}lasts_ms = 5\n[input]", r"fault 'cut': lasts_ms needs undo"),
        (
            "[input]",
            f'{CUT}undo = ["{{inptu}}"]\n[input]',
            r"fault\[0\]: \{inptu\} stands for nothing; did you",
        ),
        (
            "[input]",
            f"{CUT}undo = {{uri = 'x'}}\n[input]",
            r"unknown field fault\.undo\.uri; did you mean url\?",
        ),
        (
            "[input]",
            'prepare = ["{folder}"]\n[input]',
            r"program\.prepare\[0\]: \{folder\} has no value here: write one of python, java, here, flink",
        ),
        (
            "[output]\n",
            '[output]\ncreate = ["{java}"]\n',
            r"output\.create\[0\]: \{java\} has no value here: write one of output",
        ),
        ("job.py", "{kafka}", r"\{kafka\} has no value: neither input nor output is of the kind 'kafka'"),
        ('kind = "files"\n[o', 'kind = "file"\n[o', r"input\.kind: invalid enum value"),
        ('kind = "files"\n[o', 'kind = "files"\npace_ms = -1\n[o', r"input\.pace_ms: expected int >= 0"),
        ('kind = "files"\n[o', 'kind = "files"\nkey = "k"\n[o', r"input\.key belongs to the kind 'kafka'"),
        ("[input]", '[marks]\ncomitted = "x"\n[input]', r"marks: 'comitted' is no protocol point"),
        ("[input]", '[marks]\nelement = "x"\n[input]', r"marks: 'element' is seen without a mark"),
        ("[input]", '[marks]\ncompleted = "("\n[input]', r"marks\.completed: '\(' is no regular expression"),
        ("[input]", 'parts = ["["]\n[input]', r"program\.parts\[0\]: '\[' is no regular expression"),
        ('[output]\nkind = "files"', '[output]\nkind = "postgres"', r"output\.table belongs to the kind"),
        ("[output]\n", '[output]\ncreate = ["x"]\n', r"output\.create belongs to the kind 'postgres'"),
        ("[output]\n", '[output]\npattern = "../*"\n', r"'\.\./\*' leaves \{output\}"),
        ("[output]\n", '[output]\npattern = "/etc/*"\n', r"'/etc/\*' leaves \{output\}"),
        ("[program]", "[program", r"not TOML"),
        (
            "[output]\n",
            '[output]\nschema = "x"\n',
            r"output\.schema belongs to the format 'avro', not to 'json'",
        ),
        (
            "[output]\n",
            '[output]\nformat = "avro"\n',
            r"output\.schema belongs to the format 'avro', which needs",
        ),
        (
            "[output]\n",
            '[output]\nformat = "bytes"\n',
            r"output\.format: 'bytes' belongs to the kind 'kafka'",
        ),
        (
            '[output]\nkind = "files"',
            '[output]\nkind = "command"',
            r"output\.command belongs .*, which needs it",
        ),
        (
            '[output]\nkind = "files"',
            '[output]\nkind = "iceberg"\ntable = "t"',
            r"output: catalog and table belong",
        ),
        ("job.py", "{port}", r"\{port\} has no value here"),
        ("job.py", "{port.of-it}", r"\{port\.of-it\} has no value here: .*, port\.program$"),
        ("job.py", "{input.orders}", r"\{input\.orders\} has no value here: write one of .*input, output"),
        ("job.py", "{s3}", r"\{s3\} has no value: neither input nor output is of the kind 's3'"),
        (
            "[input]",
            '[[render]]\ntemplate = "x"\nfile = "../x"\n[input]',
            r"render\[0\]\.file: '\.\./x' leaves",
        ),
        (
            "[input]",
            '[[render]]\ntemplate = "x"\nflie = "x"\n[input]',
            r"unknown field render\.flie; did you mean file",
        ),
        (
            "\n[program]",
            'oracle = "x"\ncolumns = { id = "n" }\n[program]',
            r"columns: they rename those of records",
        ),
        ("\n[program]", 'promise = "always"\n[program]', r"promise: invalid enum value"),
    ],
)
def test_each_mistake_is_one_line_with_file_field_and_mend(write, before, after, line):
    assert before in PLAIN
    path = write(PLAIN.replace(before, after, 1))
    with pytest.raises(ProgramFileError, match=line) as caught:
        read_program_file(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_each_of_several_outputs_needs_a_name(write):
    text = PLAIN.replace("[output]", '[[output]]\nname = "rows"').replace("[input]", "[[input]]")
    assert [each.name for each in read_program_file(write(text)).outputs] == ["rows"]
    with pytest.raises(ProgramFileError, match=r"output: each \[\[output\]\] needs a name of its own"):
        read_program_file(write(text + '[[output]]\nname = "rows"\nkind = "stdout"\n'))


FLINK = PLAIN.replace('[program]\ncommand = ["{python}", "job.py"]', '[flink]\njar = "sum.jar"')


def test_a_job_of_flink_is_a_program_whose_parts_and_marks_are_those_of_a_cluster(write):
    file = read_program_file(write(FLINK))
    assert file.flink is not None
    assert file.flink.version == "2.3.0"
    assert file.program.parts == ("task-manager", "job-manager")
    assert list(file.marks) == ["triggered", "completed"]
    assert re.search(file.marks["completed"], "CheckpointCoordinator - Completed checkpoint 7 for job 0a")
    assert file.can_rescale


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ('jar = "sum.jar"', "", r"flink needs either a jar or a script \(sql\)"),
        ('jar = "sum.jar"', 'jar = "sum.jar"\nsql = "job.sql"', r"flink needs either a jar or a script"),
        (
            'jar = "sum.jar"',
            'sql = "job.sql"\nclass = "Sum"',
            r"flink\.class and flink\.arguments belong to a jar",
        ),
        ("[flink]", '[program]\ncommand = ["x"]\n[flink]', r"\[flink\] stands in place of \[program\]"),
        (
            "[flink]",
            '[flink]\nconnectors = ["kafka"]',
            r"connectors\[0\]: 'kafka' is not GROUP:ARTIFACT:VERSION",
        ),
        ("[flink]", '[flink]\nconnectors = ["a:b:<c/>"]', r"connectors\[0\]: 'a:b:<c/>' is not GROUP:ART"),
        (
            "[flink]",
            '[flink]\nversion = "2"',
            r"flink\.version: '2' is not a release of Flink, such as",
        ),
        ("[flink]", '[flink]\nclas = "Sum"', r"unknown field flink\.clas; did you mean class"),
        (
            '[input]\nkind = "files"',
            '[input]\nkind = "socket"\nconnects = "harness"',
            r"input\.connects: a job of Flink connects to its socket: leave this out, and use \{input\}",
        ),
        (
            '[output]\nkind = "files"',
            '[output]\nkind = "stdout"',
            r"output\.kind: a job of Flink runs in a cluster, which has no standard output",
        ),
        (
            "[flink]",
            '[flink]\narguments = ["{inptu}"]',
            r"arguments\[0\]: \{inptu\} stands for nothing",
        ),
        ("[flink]", '[flink]\nprepare = ["{folder}"]', r"flink\.prepare\[0\]: \{folder\} has no value here"),
    ],
)
def test_each_mistake_in_a_job_of_flink_is_one_line(write, before, after, line):
    with pytest.raises(ProgramFileError, match=line):
        read_program_file(write(FLINK.replace(before, after, 1)))


def test_a_jar_alone_is_refused_with_a_file_that_works(write):
    name = "sum.jar"
    with pytest.raises(FamilyError, match=rf"{re.escape(name)}: a job of Flink also needs a file") as caught:
        load_family(name)
    (template,) = vars(caught.value)[FOLLOWING]
    assert len(template.splitlines()) <= 15
    file = read_program_file(write(template))
    assert file.flink is not None
    assert file.flink.jar == name
    assert line_of(caught.value).endswith(f"\n\n{template}")


def test_a_topic_that_is_read_has_no_end(write):
    text = PLAIN.replace('kind = "files"', 'kind = "kafka"', 1) + '[done]\nwhen = "exit"\n'
    with pytest.raises(ProgramFileError, match="a topic has no end"):
        read_program_file(write(text))


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(FamilyError, match=r"nothing\.toml: cannot be read: No such file"):
        load_family(str(tmp_path / "nothing.toml"))


def test_placeholders_are_filled_and_other_braces_stay():
    assert filled("{input}/{} {other} {input}", {"input": "x"}) == "x/{} {other} x"


def test_without_an_oracle_each_record_comes_out_once(write):
    family = load_family(str(write(PLAIN)))
    check_family(family)
    records = family.generate(Random(3)).records
    rows = family.expected(records, NOTHING_DECLARED)
    assert sorted(rows) == [(number,) for number in range(sum(map(len, records.values())))]
    assert family.name == "job"
    assert default_system(family) == "command"


def test_a_system_that_runs_no_program_is_refused_and_flink_runs_jobs_of_flink(write):
    path = str(write(FLINK))
    assert system_of_program(path, "flink") == system_of_program(path, "command") == "command"
    with pytest.raises(
        FamilyError, match="a program runs on the system command, not on local: `onceproof run"
    ):
        system_of_program(path, "local")
    with pytest.raises(FamilyError, match=r"the file has no table \[flink\]"):
        system_of_program(str(write(PLAIN)), "flink")


def test_an_address_names_another_release_of_flink_and_comes_back_from_the_family(write):
    address = f"{write(FLINK)}?flink_version=1.20.5"
    family = load_family(address)
    assert isinstance(family, ProgramFamily)
    assert [job.version for _, job in family.jobs] == ["1.20.5"]
    assert address_of(family) == address
    assert default_system(family) == "command"
    with pytest.raises(FamilyError, match=r"flink\.version: '1\.x' is not a release"):
        load_family(f"{write(FLINK)}?flink_version=1.x")
    with pytest.raises(FamilyError, match="--flink-version is for jobs of Flink"):
        load_family(f"{write(PLAIN)}?flink_version=1.20.5")


def test_an_upgrade_has_both_versions_and_each_scenario_a_stop_between_them(write, tmp_path):
    old = tmp_path / "old.toml"
    old.write_text(FLINK.replace("[flink]", '[flink]\nversion = "1.20.5"'), encoding="utf-8")
    address = upgrade_address(old, str(write(FLINK)), is_allowed=False)
    family = load_family(address)
    assert isinstance(family, ProgramFamily)
    versions = [(path.name, job.version) for path, job in family.jobs]
    assert versions == [("old.toml", "1.20.5"), ("job.toml", "2.3.0")]
    assert address_of(family) == address
    drawn = [with_program_faults(family, scenario_of(family, seed)) for seed in range(20)]
    assert all([each.kind for each in scenario.asked] == ["terminate"] for scenario in drawn)
    old.write_text(PLAIN, encoding="utf-8")
    with pytest.raises(FamilyError, match=r"old\.toml: upgrade takes jobs of Flink"):
        load_family(address)


def test_an_oracle_in_python_needs_two_functions_and_a_schema(write, tmp_path):
    (tmp_path / "oracle.py").write_text(ORACLE, encoding="utf-8")
    family = load_family(str(write(f'oracle = "oracle.py"\n{PLAIN}')))
    assert isinstance(family, ProgramFamily)
    check_family(family)
    assert family.columns_of(family.file.outputs[0]) == {"word": "STRING", "n": "BIGINT"}
    assert address_of(family) == str(tmp_path / "job.toml")


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (
            "def expected",
            "def expcted",
            r"oracle\.py: an oracle needs a function 'expected'; it is missing; did you",
        ),
        ("record_schema", "schema", r"oracle\.py: an oracle needs 'record_schema'"),
        ("record_schema", "options = 1\nrecord_schema", r"oracle\.py: 'options' must be FamilyOptions"),
        ("from onceproof", "from onceprof", r"oracle\.py:2: ModuleNotFoundError"),
    ],
)
def test_a_mistake_in_the_oracle_names_its_file(write, tmp_path, before, after, line):
    (tmp_path / "oracle.py").write_text(ORACLE.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(FamilyError, match=line):
        load_family(str(write(f'oracle = "oracle.py"\n{PLAIN}')))


def test_an_error_in_expected_names_the_line_of_the_oracle(write, tmp_path):
    (tmp_path / "oracle.py").write_text(ORACLE.replace('[("ant", 1)]', "records['none']"), encoding="utf-8")
    family = load_family(str(write(f'oracle = "oracle.py"\n{PLAIN}')))
    with pytest.raises(FamilyError, match=r"oracle\.py:8: seed 0: KeyError"):
        check_family(family)


def test_an_oracle_that_is_missing_is_one_line(write):
    with pytest.raises(FamilyError, match=r"job\.toml: oracle: .*none\.py: no such file"):
        load_family(str(write(f'oracle = "none.py"\n{PLAIN}')))


def test_a_built_in_family_can_be_the_oracle(write):
    family = load_family(str(write(f'oracle = "word_count"\n{PLAIN}')))
    word_count = load_family("word_count")
    assert family.generate(Random(1)) == word_count.generate(Random(1))
    assert list(family.columns_of(family.file.outputs[0])) == ["word", "count"]


def test_a_promise_of_at_least_once_is_an_option_of_the_family(write):
    family = load_family(str(write(f'promise = "at_least_once"\n{PLAIN}')))
    assert options_of(family).at_least_once == "rows"


def test_on_another_system_a_program_names_the_right_one(write):
    family = load_family(str(write(PLAIN)))
    verdict = try_scenario(family, scenario_of(family, 0)).verdict
    assert "--system command" in str(verdict.violations[0].witness)

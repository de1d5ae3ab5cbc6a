"""The client of Flink, run by the Python of its environment: ``main.py SCENARIOS_FOLDER``.

It reads orders, one JSON object a line, from its standard input, and answers each with one line. An order to
submit a job is answered by the job's id, or by an error of one line.
"""

import importlib
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path

import cloudpickle
from engine_names import EngineNames, NoCounterpart, job_of, loaded_modules
from job_ends import FlinkEnvironment, JobEnds, bridge_streams
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from script_jobs import ScriptEnvironment, modules_beside, rows_module, run_script
from table_jobs import TableJob


def family_in(module_name, file, attribute):
    """Return the family in a module of onceproof's, or in a user's file."""
    if file:
        path = Path(file)
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        spec = importlib.util.spec_from_file_location(module_name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(module_name)
    _by_value(module, file)
    return getattr(module, attribute) if attribute else module


def _by_value(module, file):
    """Let functions of families travel with their code: workers have PyFlink, and nothing of families."""
    beside = [
        each
        for each in list(sys.modules.values())
        if file and str(getattr(each, "__file__", None) or "").startswith(f"{Path(file).parent}/")
    ]
    for each in {*loaded_modules(), *beside, module}:
        cloudpickle.register_pickle_by_value(each)


def submit(order):
    """Build the job of an order and submit it. Return its id, and how many subtasks of sources it has.

    A job that is only to be built gets no id.
    """
    configuration = Configuration()
    for key, value in {
        "execution.target": "remote",
        "execution.attached": "false",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        **order["settings"],
    }.items():
        configuration.set_string(key, value)
    # PyFlink's own way to an environment would start a cluster inside of this process.
    java = get_gateway().jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment(
        configuration._j_configuration
    )
    java.setParallelism(order["parallelism"])
    java.setMaxParallelism(order["max_parallelism"])
    if order["tables"] is not None:
        return submit_tables(TableJob(java, order), order["is_only_built"])
    try:
        if order["script"] is not None:
            environment = ScriptEnvironment(java, order, configuration)
            path = Path(order["file"])
            for each in {*loaded_modules(), rows_module(), *modules_beside(path)}:
                cloudpickle.register_pickle_by_value(each)
            run_script(environment, path, order["script"])
        else:
            environment = FlinkEnvironment(java, order)
            family = family_in(order["module"], order["file"], order["attribute"])
            job_of(family)(environment, JobEnds(order))
    except NoCounterpart:
        raise
    except Exception as error:
        # The engine runs this job: PyFlink lacks something, or takes it otherwise.
        raise NoCounterpart(f"{type(error).__name__}: {_first_line(error)}") from error
    if order["is_only_built"]:
        environment.get_execution_plan()
        return {"readers": environment.readers()}
    # A script's environment ends the script in place of its own call.
    job = str(StreamExecutionEnvironment.execute_async(environment, order["name"]).get_job_id())
    return {"job": job, "readers": environment.readers(), "reads_topic": environment.reads_topic}


def submit_tables(job, is_only_built):
    """Submit the job of a script of SQL as ``submit`` does."""
    try:
        found = {} if is_only_built and job.execution_plan() else {"job": job.submit()}
    except Exception as error:
        raise NoCounterpart(_first_line(error)) from error
    return {**found, "readers": job.readers(), "reads_topic": False}


def answer(order):
    """Return the answer to an order."""
    try:
        return submit(order)
    except NoCounterpart as error:
        return {"refused": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {_first_line(error)}"}


def _first_line(error):
    """Return in one line what an error says; of one of Java, without its stack trace."""
    return " ".join(str(error).strip().split("\n\tat ")[0].split())


def main(scenarios):
    """Answer orders until the standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    # What Flink prints must not stand among the answers.
    os.dup2(2, 1)
    sys.meta_path.insert(0, EngineNames(scenarios))
    bridge_streams()
    get_gateway()
    print(json.dumps({"ready": os.getpid()}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

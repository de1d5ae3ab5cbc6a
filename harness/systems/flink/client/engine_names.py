"""Gives a family's file PyFlink's classes where it imports the engine's, which bear the same names.

The rules this module lives by:

- ``onceproof.scenarios`` is read from its files, as they are. Nothing else of onceproof runs here.
- A name of ``onceproof.engine`` is PyFlink's class of that name. What PyFlink lacks may be imported, because
  a file imports more than a job uses; its first use is an error that names it.
- A name of ``onceproof.harness`` stands for nothing, because oracles and generators do not run here. Of a
  family's options its jobs are needed.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import lazy_strategies
import plain_sources

_OWN = {
    "Duration": lazy_strategies.Duration,
    "WatermarkStrategy": lazy_strategies.WatermarkStrategy,
    "MIN_WATERMARK": -(1 << 63),
    "MAX_WATERMARK": (1 << 63) - 1,
    **{name: getattr(plain_sources, name) for name in plain_sources.__all__},
}
"""What a family gets of ours: plain values, and what could not travel to workers."""
_PYFLINK = (
    "pyflink.datastream",
    "pyflink.datastream.functions",
    "pyflink.datastream.state",
    "pyflink.datastream.window",
    "pyflink.datastream.output_tag",
    "pyflink.datastream.time_domain",
    "pyflink.datastream.timerservice",
    "pyflink.datastream.data_stream",
    "pyflink.datastream.async_retry_predicates",
    "pyflink.datastream.async_retry_strategies",
    "pyflink.common",
    "pyflink.common.time",
    "pyflink.common.typeinfo",
    "pyflink.common.watermark_strategy",
)
_TRAVEL = (
    "plain_sources",
    "lazy_strategies",
    "engine_names",
    "job_ends",
    "kafka_ends",
    "script_jobs",
    "script_rows",
)
_ENGINE = "onceproof.engine"
_SCENARIOS = "onceproof.scenarios"


class NoCounterpart(Exception):
    """A job uses what PyFlink does not have. The message is one line."""


class Unmapped:
    """A name of the engine that PyFlink does not have; every use is an error.

    A class below it may be defined, because a module has more than a job uses, and its objects are refused.
    """

    def __init__(self, name):
        self._name = name

    def _refuse(self, *arguments, **named):
        raise NoCounterpart(f"PyFlink has no {self._name}")

    __call__ = __getitem__ = __iter__ = _refuse

    def __mro_entries__(self, bases):
        def refuse(refused, *arguments, **named):
            self._refuse()

        return (type(self._name, (), {"__new__": refuse}),)

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        self._refuse()


class Inert:
    """Stands for a name of the harness, which a job does not need."""

    def __call__(self, *arguments, **named):
        return self

    def __getitem__(self, item):
        return self

    def __mro_entries__(self, bases):
        return (object,)

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return self


class FamilyOptions:
    """What is needed here of a family's options: its jobs for engines."""

    def __init__(self, jobs=None, **others):
        self.jobs = jobs or {}


def job_of(family):
    """Return the function that builds a family's job on Flink: its own one for Flink, if it has one.

    Families of earlier versions have it as a member.
    """
    options = getattr(family, "options", None)
    jobs = options.jobs if isinstance(options, FamilyOptions) else {}
    return jobs.get("flink") or getattr(family, "flink_job", None) or family.job


def counterpart(name):
    """Return PyFlink's object of a name; None if it has none."""
    if name in _OWN:
        return _OWN[name]
    for home in _PYFLINK:
        found = getattr(importlib.import_module(home), name, None)
        if found is not None and not isinstance(found, ModuleType):
            return found
    return None


class EngineNames(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of onceproof for a family.

    ``scenarios`` is the folder of the families that come with it.
    """

    def __init__(self, scenarios):
        self._scenarios = Path(scenarios)

    def find_spec(self, name, path=None, target=None):
        if name != "onceproof" and not name.startswith("onceproof."):
            return None
        if name == _SCENARIOS or name.startswith(f"{_SCENARIOS}."):
            return self._scenario(name)
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def _scenario(self, name):
        place = self._scenarios.joinpath(*name.split(".")[2:])
        if place.is_dir():
            return importlib.util.spec_from_file_location(
                name, place / "__init__.py", submodule_search_locations=[str(place)]
            )
        return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__

        def get(attribute):
            # The import system asks for the rest, and imports submodules itself.
            if attribute.startswith("__") or f"{name}.{attribute}" in (_ENGINE, _SCENARIOS):
                raise AttributeError(attribute)
            if attribute == "FamilyOptions":
                return FamilyOptions
            found = None if name.startswith("onceproof.harness") else counterpart(attribute)
            if found is not None:
                return found
            return Unmapped(attribute) if name.startswith(_ENGINE) else Inert()

        module.__getattr__ = get


def loaded_modules():
    """Return the modules that hold the code of families, without those that only hold names."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith(f"{_SCENARIOS}.") or name in _TRAVEL
    ]

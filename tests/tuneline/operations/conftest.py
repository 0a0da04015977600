"""The repository of the flows" tests: parts are tested in it, too."""

from tests.flows.conftest import make, pipeline, promoted, put, registry, run, served, toy, toy_template

__all__ = ["make", "pipeline", "promoted", "put", "registry", "run", "served", "toy", "toy_template"]

"""How a stage writes what it makes: aside first, then renamed, so that nobody ever reads half a file."""

from stages.outs.atomic import replace_directory, replace_file
from stages.outs.metrics import write_json, write_metrics

__all__ = ["replace_directory", "replace_file", "write_json", "write_metrics"]

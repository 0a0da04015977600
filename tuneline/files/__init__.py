"""Files of the line: written aside first, then renamed, so that nobody ever reads half a file; the schemas of its tables."""

from tuneline.files.atomic import replace_directory, replace_file
from tuneline.files.json_files import write_json, write_metrics

__all__ = ["replace_directory", "replace_file", "write_json", "write_metrics"]

"""File formats that all packages share: atomic writes, JSON and metrics, Parquet schemas."""

from tuneline.files.atomic import replace_directory, replace_file, write_json

__all__ = ["replace_directory", "replace_file", "write_json"]

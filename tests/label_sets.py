"""A kind of task whose labels are sets, for tests of readers."""

from typing import ClassVar

import pyarrow as pa

from tuneline.tasks import Classification


class Sets(Classification):
    staged_type: ClassVar[pa.DataType] = pa.list_(pa.string())

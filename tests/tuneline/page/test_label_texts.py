"""Labels as people read and write them."""

import pytest

from tuneline.model.tasks import Multilabel
from tuneline.page.label_texts import exact_text

TASK = Multilabel(("angry", "billing", "technical"))


@pytest.mark.parametrize(
    "text", ["technical, angry", "technical|angry", "angry;technical", "angry\ttechnical"]
)
def test_people_may_join_labels_by_any_separator(text):
    assert exact_text(TASK, text) == "angry;technical"
    assert exact_text(Multilabel(("wet, cold", "dry")), "dry;wet, cold") == "wet, cold;dry", "part of a name"

"""A second version answers silently."""

import json
import shutil
import stat
import time

import pytest

from tests.exported_pipeline import published_pipeline
from tests.service import running_service
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.runtime.errors import StageError
from tuneline.service import shadow
from tuneline.service.application import Service, ServiceSettings
from tuneline.service.models import FolderSource

ROWS = [[f"{word} parcel", "came"] for word in ("the", "no", "late", "wrong", "my", "a", "one", "two")]


@pytest.fixture
def other(tmp_path, pair_folder):
    """The same model with errors that cost something: it answers the second class for every row."""
    folder = shutil.copytree(pair_folder, tmp_path / "other")
    record = json.loads((folder / EXPORT_RECORD).read_text())
    first = record["labels"][0]
    errors = {name: {first: 1} for name in record["labels"][1:]}
    errors[first] = {record["labels"][2]: 1}
    record["models"]["fp32"]["costs"] = {"errors": errors}
    (folder / EXPORT_RECORD).write_text(json.dumps(record))
    return folder


def outcomes(service, rows):
    """Wait until the shadow has answered so many rows, and return how often it agreed or not."""
    for _ in range(1000):
        counts = {}
        for line in service.client.get("/metrics").text.splitlines():
            if line.startswith("tuneline_shadow_rows_total"):
                name, value = line.split()
                counts[name.partition('outcome="')[2].partition('"')[0]] = float(value)
        if sum(counts.values()) >= rows:
            return counts
        time.sleep(0.01)
    return counts


def test_same_model_agrees_about_its_share_of_the_rows(pair_folder):
    with running_service(pair_folder, shadow=FolderSource(pair_folder, None), shadow_share=0.5) as service:
        answered = service.post("/predict", {"inputs": ROWS})
        assert outcomes(service, 4) == {"same": 4}
        assert answered.headers["tuneline-version"] == service.service.model.current.version


def test_disagreements_are_kept_for_people(pair_folder, other, tmp_path):
    file = tmp_path / "disagreements.jsonl"
    with running_service(
        pair_folder, shadow=FolderSource(other, None), shadow_share=1.0, disagreements=file
    ) as service:
        answers = service.post("/predict", {"inputs": ROWS}).json()
        second = service.service.model.current.task.class_names[1]
        expected = sum(row[0]["label"] != second for row in answers)
        assert expected > 0
        counts = outcomes(service, len(ROWS))
    assert counts.get("other", 0) == expected
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(kept) == expected
    assert all([row["subject"], row["body"]] in ROWS for row in kept)
    assert {row["shadow_answer"] for row in kept} == {second}
    assert all(row["version"] != row["shadow_version"] for row in kept)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_file_of_disagreements_ends_at_its_limit_also_after_a_restart(
    pair_folder, other, tmp_path, monkeypatch
):
    monkeypatch.setattr(shadow, "MOST_KEPT", 3)
    file = tmp_path / "disagreements.jsonl"
    for _ in range(2):
        source = FolderSource(other, None)
        with running_service(pair_folder, shadow=source, shadow_share=1.0, disagreements=file) as service:
            service.post("/predict", {"inputs": ROWS})
            outcomes(service, len(ROWS))
        assert len(file.read_text().splitlines()) == 3


def test_rows_that_the_second_model_cannot_read_are_counted(pair_folder, text_folder):
    source = FolderSource(text_folder, None)
    with running_service(pair_folder, shadow=source, shadow_share=1.0) as service:
        service.post("/predict", {"inputs": ROWS})
        assert outcomes(service, len(ROWS)) == {"skipped": len(ROWS)}


def test_model_of_numbers_cannot_be_compared_by_labels(tmp_path_factory):
    folder = published_pipeline(tmp_path_factory, "regression") / "models/onnx"
    source = FolderSource(folder, None)
    with pytest.raises(StageError, match="this model predicts numbers"):
        Service(ServiceSettings(source, shadow=source))

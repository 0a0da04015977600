import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages import baseline
from tests.params import change_params, write_params
from tests.shards import into_shards
from tests.stages.evaluate.project import write_classifier
from tuneline.core.stage.tables import write_table
from tuneline.model.tasks import Classification, Regression, Task
from tuneline.model.tasks.columns import raw_schema
from tuneline.model.tokens.tokenizer import save_tokenizer
from tuneline.model.tokens.wordpiece import train_wordpiece

WORDS = ["good great fine", "bad poor sad"]
CLASSES, NUMBERS = Classification(("low", "high")), Regression()


def write_project(folder: Path, labels: Task = CLASSES, columns: tuple[str, ...] = ("text",)) -> None:
    """Write raw splits whose label is that of the words of the first text, except 3 of 20; and an untrained
    checkpoint."""
    write_params(folder)
    change_params(
        folder,
        {"data.text_columns": list(columns), "model.checkpoint": "models/source/mine", "model.config": {}},
    )
    for seed, (split, rows) in enumerate({"train": 200, "validation": 40, "test": 60}.items()):
        random = np.random.default_rng(seed)
        kinds = random.integers(0, 2, rows)
        texts = {
            name: [" ".join(random.choice(WORDS[kind].split(), 5)) for kind in kinds] for name in columns
        }
        answers = np.where(np.arange(rows) % 20 < 3, 1 - kinds, kinds)
        table = pa.table(
            {**texts, "labels": answers, "idx": np.arange(rows)}, schema=raw_schema(columns, labels)
        )
        (folder / "data/raw").mkdir(parents=True, exist_ok=True)
        write_table(table, folder / f"data/raw/{split}.parquet")
    save_tokenizer(train_wordpiece(lambda: iter([WORDS] * 3), 60), 32, folder / "data/tokenized/tokenizer")
    write_classifier(folder / "models/base/model", labels, folder / "data/tokenized/tokenizer")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    kinds = {
        "classes": {},
        "pairs": {"columns": ("first", "second")},
        "numbers": {"labels": NUMBERS, "columns": ("first", "second")},
    }
    folders = {name: tmp_path_factory.mktemp(name) for name in kinds}
    for name, options in kinds.items():
        write_project(folders[name], **options)
    return folders


@pytest.fixture
def project(made, tmp_path, monkeypatch, request):
    folder = shutil.copytree(made[getattr(request, "param", "classes")], tmp_path / "project")
    monkeypatch.chdir(folder)
    return folder


def predicted(split="test"):
    return pq.read_table(f"reports/baselines/{split}.parquet")


@pytest.mark.parametrize(
    ("project", "models"),
    [
        ("classes", ["majority", "tfidf", "frozen"]),
        ("pairs", ["majority", "tfidf", "frozen", "cosine"]),
        ("numbers", ["majority", "tfidf", "frozen", "cosine"]),
    ],
    indirect=["project"],
)
def test_baselines_predict_the_validation_and_the_reported_split(project, models):
    baseline.main()
    for split, rows in (("validation", 40), ("test", 60)):
        table = predicted(split)
        assert table.column_names == models
        assert len(table) == rows
        assert not any(column.null_count for column in table.columns)


def test_frozen_vectors_of_an_untrained_model_tell_words_apart(project):
    baseline.main()
    labels = pq.read_table("data/raw/test.parquet")["labels"].to_numpy()
    assert (predicted()["frozen"].to_numpy() == labels).mean() >= 0.75, (
        "all but 0.15 of the rows have the right label"
    )
    assert len(set(predicted()["majority"].to_pylist())) == 1


def test_model_from_scratch_has_no_frozen_baseline(project):
    change_params(project, {"model.checkpoint": None, "model.config": {"model_type": "bert"}})
    shutil.rmtree("models")
    baseline.main()
    assert predicted().column_names == ["majority", "tfidf"]


@pytest.mark.parametrize(
    "project", ["classes", pytest.param("numbers", marks=pytest.mark.slow)], indirect=True
)
def test_second_run_and_shards_give_the_same_bytes(project):
    baseline.main()
    once = Path("reports/baselines/test.parquet").read_bytes()
    into_shards(Path("data/raw"), rows=30)
    baseline.main()
    assert Path("reports/baselines/test.parquet").read_bytes() == once

import csv
import gzip
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.small_pipeline import QUEUES
from tests.tuneline.cli.predict.conftest import PAIR, lines_of
from tuneline.core.runtime.errors import InputError


def source(project, columns=("subject", "body")):
    return pq.read_table(project / "data/raw/test.parquet").select(list(columns))


def expected(project):
    """Probabilities by the trained model, in torch, with the temperature of the published one."""
    logits = np.stack(pq.read_table(project / "reports/predictions.parquet")["logits"].to_numpy()).astype(
        np.float64
    )
    record = json.loads((project / "models/onnx/export.json").read_text())
    logits /= record["models"]["fp32"]["decisions"]["temperature"]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def write_input(table, path):
    kind = path.name.removesuffix(".gz").rsplit(".", 1)[1]
    plain = path.with_name(path.name.removesuffix(".gz"))
    rows = table.to_pylist()
    if kind == "parquet":
        pq.write_table(table, plain, row_group_size=7)
    elif kind == "jsonl":
        plain.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with plain.open("w", newline="") as file:
            writer = csv.DictWriter(file, table.column_names, delimiter="\t" if kind == "tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    if plain != path:
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    return path


def probabilities(lines):
    return np.array([[line["probabilities"][name] for name in QUEUES] for line in lines])


@pytest.mark.parametrize("ending", ["csv", "tsv.gz", "jsonl", "parquet"])
def test_every_input_format_gives_the_predictions_of_the_trained_model(
    predict, classification, tmp_path, ending
):
    result = predict(write_input(source(classification), tmp_path / f"in.{ending}"))
    assert result.exit_code == 0, result.output
    lines = lines_of(result.stdout)
    assert [line["row"] for line in lines] == list(range(1, 51))
    np.testing.assert_allclose(probabilities(lines), expected(classification), atol=2e-6)
    assert [line["label"] for line in lines] == [
        QUEUES[best] for best in expected(classification).argmax(axis=1)
    ]
    assert all(line["probability"] == max(line["probabilities"].values()) for line in lines)


def test_regression_gives_numbers(predict, regression, tmp_path):
    given = write_input(source(regression), tmp_path / "in.csv")
    lines = lines_of(predict(given, model=regression / "models/onnx").stdout)
    trained = pq.read_table(regression / "reports/predictions.parquet")["prediction"].to_numpy()
    assert list(lines[0]) == ["row", "prediction", "prediction_low", "prediction_high"]
    np.testing.assert_allclose([line["prediction"] for line in lines], trained, atol=1e-5)


def test_precision_option_selects_the_int8_model(predict, classification, tmp_path):
    given = write_input(source(classification), tmp_path / "in.csv")
    found = probabilities(lines_of(predict(given, "--precision", "int8").stdout))
    assert 1e-6 < np.abs(found - expected(classification)).max() < 0.2


def test_every_column_is_kept(predict, tmp_path):
    (tmp_path / "in.csv").write_text("id,body,label,subject\n7,is missing,mine,the parcel\n")
    assert predict("in.csv", "--keep", "all", "--out", "out.csv").exit_code == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    kept = {"row": "1", "id": "7", "body": "is missing", "input_label": "mine", "subject": "the parcel"}
    assert {name: line[name] for name in kept} == kept
    assert line["label"] in QUEUES
    rows = '{"subject": "a", "body": "b", "id": 7}\n{"body": "b", "subject": "a"}\n'
    piped = lines_of(predict("--keep", "all", "--keep", "id", given=rows.encode()).stdout)
    assert [(line["subject"], line["id"]) for line in piped] == [("a", 7), ("a", None)]


def test_key_that_the_first_objects_lack_is_kept_or_a_bad_row(predict, tmp_path):
    """A file says its columns in its first 1,000 objects, a pipe in the first one."""
    ticket = PAIR.replace("}", ', "ticket": 7}')
    (tmp_path / "in.jsonl").write_text(PAIR + ticket)
    in_file = lines_of(predict("in.jsonl", "--keep", "all").stdout)
    assert [line["ticket"] for line in in_file] == [None, 7]

    piped = predict("--keep", "all", given=(PAIR + ticket).encode())
    assert piped.exit_code == InputError.status
    assert "line 2" in piped.stderr
    assert "'ticket'" in piped.stderr
    assert len(lines_of(predict("--keep", "subject", given=(PAIR + ticket).encode()).stdout)) == 2

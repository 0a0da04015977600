import pytest

from tests.project import Project
from tuneline.core.params.evaluate import ERROR_CHECKS, WARNING_CHECKS
from tuneline.core.params.params_file import changed, write
from tuneline.core.runtime.errors import StageError
from tuneline.testing import CHECKS_OF_MANY_ROWS, SampledRun, sampled


@pytest.fixture
def product(tmp_path) -> Project:
    return Project.copy_to(tmp_path / "product")


def test_failed_stage_is_named_with_what_it_printed(product, tmp_path):
    source = product.folder / "data/source/tickets.csv"
    source.write_text("subject,body,queue\na,b,c\nd,e,\n")
    product.set_params({"data.source": "files", "data.splits.train": "tickets", "data.split": {}})
    with pytest.raises(StageError) as error:
        SampledRun.of(product.folder, tmp_path / "run")
    message = str(error.value)
    assert message.startswith("Stage 'download' failed")
    assert "data/source/tickets.csv, line 3" in message
    assert "base:" not in message
    assert source.stat().st_nlink == 1
    assert product.status().split() == ["M", "params.yaml"]


def test_data_that_only_dvc_has_is_named_with_the_command(product, tmp_path):
    (product.folder / "data/source/tickets.csv").write_text("text,label\na,b\n")
    product.run("dvc", "add", "data/source/tickets.csv")
    (product.folder / "data/source/tickets.csv").unlink()
    with pytest.raises(StageError, match=r"missing data(.|\n)*`dvc pull data/source/tickets\.csv\.dvc`"):
        SampledRun.of(product.folder, tmp_path / "run", "download")


def test_stage_that_dvc_cannot_begin_is_named(product, tmp_path):
    pipeline = (product.folder / "dvc.yaml").read_text()
    (product.folder / "dvc.yaml").write_text(pipeline.replace("- models/source\n", "- mine\n"))
    with pytest.raises(StageError, match=r"(?s)Stage 'base' failed.*run/mine"):
        SampledRun.of(product.folder, tmp_path / "run", "base")


def test_stages_stop_at_the_one_that_is_named(product, tmp_path):
    assert SampledRun.of(product.folder, tmp_path / "run", "download").stages == ("download",)


def test_base_weights_are_not_needed(product, tmp_path):
    weights = product.folder / "models/source/encoder"
    weights.mkdir()
    (weights / "config.json").write_text("{}")
    product.run("dvc", "add", "models/source/encoder")
    assert SampledRun.of(product.folder, tmp_path / "run", "base").stages == ("base",)


def test_parameters_that_need_base_weights_do_not_remain(product, tmp_path):
    fine_tuning = {
        "model.checkpoint": "someone/encoder",
        "model.config": {},
        "model.head": "auto",
        "data.text_columns": ["body"],
        "train.contrastive": 0.5,
    }
    path = product.folder / "params.yaml"
    write(path, changed(path, fine_tuning))
    assert changed(path, sampled(product.folder, 300))


def test_checks_of_many_rows_are_checks():
    assert set(CHECKS_OF_MANY_ROWS) <= {*ERROR_CHECKS, *WARNING_CHECKS}

"""``KEY=VALUE`` for ``tuneline run``: what is refused, and what the text of the file becomes."""

import difflib
from pathlib import Path

import pytest

from tests.params import write_params
from tuneline.core.yaml_files import read_yaml
from tuneline.experiments.overrides import params_with, parse_overrides
from tuneline.runtime.errors import ParamsError


@pytest.fixture
def project(tmp_path, root, monkeypatch) -> Path:
    """A project with the product's parameters, launch files and tasks."""
    write_params(tmp_path)
    (tmp_path / "conf").symlink_to(root / "tests/conf")
    (tmp_path / "dvc.yaml").write_bytes((root / "dvc.yaml").read_bytes())
    (tmp_path / "project").symlink_to(root / "project")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changed_lines(project: Path, *overrides: str) -> list[str]:
    before = (project / "params.yaml").read_text().splitlines()
    after = params_with(project, *parse_overrides(project, overrides)).splitlines()
    return [line[1:].split("#")[0].strip() for line in difflib.ndiff(before, after) if line.startswith("+")]


def test_only_the_line_of_the_value_changes_and_its_comment_stays(project):
    text = (
        (project / "params.yaml")
        .read_text()
        .replace("  learning_rate:", "  # from the paper\n  learning_rate:")
    )
    text = text.replace("seed: 42", "seed: 42   # the answer")
    (project / "params.yaml").write_text(text)
    after = params_with(project, *parse_overrides(project, ["train.learning_rate=1e-4"]))
    assert changed_lines(project, "train.learning_rate=1e-4") == ["learning_rate: 0.0001"]
    assert "# from the paper\n" in after
    assert "seed: 42   # the answer" in after


@pytest.mark.parametrize(
    ("override", "lines"),
    [
        ("train.max_steps=60", ["epochs: null", "max_steps: 60"]),
        ("train.epochs=3", ["epochs: 3"]),
        ("train.warmup_steps=5", ["warmup_ratio: null", "warmup_steps: 5"]),
    ],
)
def test_alternative_that_is_given_replaces_the_other(project, override, lines):
    assert changed_lines(project, override) == lines


def test_alternative_replaces_one_that_an_earlier_run_set(project):
    (project / "params.yaml").write_text(
        params_with(project, *parse_overrides(project, ["train.max_steps=60"]))
    )
    assert changed_lines(project, "train.epochs=3") == ["epochs: 3", "max_steps: null"]


def test_key_of_a_section_that_is_null_makes_the_section(project):
    values, _ = parse_overrides(project, ["train.early_stopping.patience=3"])
    text = params_with(project, values)
    (project / "params.yaml").write_text(text)
    assert read_yaml(project / "params.yaml")["train"]["early_stopping"] == {"patience": 3}


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("train.lerning_rate=1", "train.lerning_rate: unknown key; did you mean train.learning_rate?"),
        ("train.lr=1e-4", "train.lr: unknown key; did you mean train.learning_rate?"),
        ("learning_rate=1", "did you mean train.learning_rate?"),
        ("train.learning_rate=-1", "train.learning_rate: input should be greater than 0, not -1"),
        ("train.learning_rate=fast", "train.learning_rate: input should be a valid number, not 'fast'"),
        ("train.metric=acc", "train.metric: 'acc'"),
        ("train.launch=nowhere", "conf/accelerate/nowhere.yaml"),
        ("train.loss=project/losses.py:nothing", "has no function 'nothing'"),
        ("train.betas=[0.8,", "train.betas=[0.8,"),
        ("train.epochs", "'train.epochs'"),
        ("task=nothing", "conf/task/nothing.yaml"),
    ],
)
def test_wrong_override_is_refused_by_name(project, override, named):
    before = (project / "params.yaml").read_bytes()
    with pytest.raises(ParamsError) as refused:
        params_with(project, *parse_overrides(project, [override]))
    assert named in str(refused.value)
    assert (project / "params.yaml").read_bytes() == before


def test_both_alternatives_are_refused(project):
    with pytest.raises(ParamsError, match=r"train\.epochs: give"):
        params_with(project, *parse_overrides(project, ["train.epochs=3", "train.max_steps=5"]))


def test_layout_of_another_author_stays(project):
    """Indentation, quotes, line breaks and columns of comments are not those that the library would write."""
    path = project / "params.yaml"
    values = path.read_text().splitlines()
    at = next(index for index, line in enumerate(values) if line.startswith("train:"))
    end = next(
        (index for index in range(at + 1, len(values)) if not values[index].startswith(" ")), len(values)
    )
    odd = [f"  {line}" if line.startswith("  ") else line for line in values[at:end]]
    path.write_text("\n".join([*values[:at], *odd, *values[end:]]) + "\n")
    after = params_with(project, *parse_overrides(project, ["train.learning_rate=1e-4"]))
    assert (
        sum(old != new for old, new in zip(path.read_text().splitlines(), after.splitlines(), strict=True))
        == 1
    )


def test_error_of_a_given_value_is_not_one_of_the_file(project):
    with pytest.raises(
        ParamsError,
        match=(
            r"^What was given has 1 error:\n  train\.learning_rate: input should be a valid number, not 'abc'"
        ),
    ):
        changed_lines(project, "train.learning_rate=abc")
    text = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(text.replace("seed: 42", "seed: x42"))
    with pytest.raises(ParamsError, match="has 2 errors"):
        changed_lines(project, "train.learning_rate=abc")

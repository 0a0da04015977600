from tests.params import params
from tuneline.params.loading import find_warnings, print_warnings

CHECKPOINT = {"checkpoint": "google-bert/bert-base-uncased", "config": None}


def test_learning_rate_from_scratch_with_a_checkpoint_is_a_warning(capsys):
    doubtful = params(model=CHECKPOINT, train={"learning_rate": 7e-4})
    assert len(find_warnings(doubtful)) == 1
    print_warnings("train", doubtful)
    assert capsys.readouterr().out.startswith(
        "train: WARNING: train.learning_rate: 0.0007 suits training from scratch"
    )


def test_lora_without_a_checkpoint_is_a_warning():
    (warning,) = find_warnings(params(train={"lora": {}}))
    assert warning.startswith("train.lora: model.checkpoint is null")
    assert find_warnings(params(model=CHECKPOINT, train={"lora": {}, "learning_rate": 5e-5})) == []

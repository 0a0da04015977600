import shutil

import numpy as np
import pytest
import torch

from tests.stages.evaluate.project import QUEUES
from tuneline.core.runtime.errors import DataError, StageError
from tuneline.core.stage.tables import SplitReader
from tuneline.judge.evaluation.classifier import Classifier
from tuneline.model.tasks import Classification
from tuneline.model.tokens.tokenized_splits import TokenizedSplit


@pytest.fixture(scope="module")
def split(project):
    return TokenizedSplit.read(SplitReader.open(project / "data/tokenized", "test", "tokenize"))


@pytest.fixture(scope="module")
def classifier(project):
    return Classifier.load(project / "models/classifier", QUEUES)


def test_logits_do_not_depend_on_the_batch(classifier, split):
    logits = classifier.logits(split, batch_size=7)
    assert logits.shape == (45, 3)
    for row in range(len(split)):
        alone = {
            name: torch.from_numpy(values).to(classifier.device)
            for name, values in split.pad(np.array([row]), 0).items()
        }
        with torch.inference_mode():
            expected = classifier.model(**alone).logits.float().cpu().numpy()[0]
        assert np.allclose(logits[row], expected, atol=1e-5)


def test_logits_are_byte_identical_in_two_runs(classifier, split):
    assert classifier.logits(split, 16).tobytes() == classifier.logits(split, 16).tobytes()


def test_classifier_has_no_dropout_and_uses_sdpa(classifier):
    assert not classifier.model.training
    assert classifier.model.config._attn_implementation == "sdpa"


def test_model_for_other_labels_is_an_error(project):
    with pytest.raises(DataError, match=r"3 outputs.* 2"):
        Classifier.load(project / "models/classifier", Classification(("no", "yes")))


def test_pickled_weights_are_an_error(project, tmp_path):
    folder = shutil.copytree(project / "models/classifier", tmp_path / "classifier")
    model = Classifier.load(folder, QUEUES).model
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(StageError, match="cannot be loaded"):
        Classifier.load(folder, QUEUES)

import pytest

from tuneline.core.runtime.errors import StageError
from tuneline.onnx.session import OnnxClassifier


@pytest.mark.parametrize("content", [b"", b"not a model", b"version https://git-lfs.github.com/spec/v1\n"])
def test_invalid_model_file_is_named(tmp_path, content):
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(StageError, match=r"model\.onnx"):
        OnnxClassifier(tmp_path / "model.onnx")

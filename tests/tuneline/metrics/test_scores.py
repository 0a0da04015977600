import numpy as np

from tuneline.metrics.scores import confusion_matrix


def test_confusion_matrix_has_labels_in_rows():
    matrix = confusion_matrix(np.array([0, 0, 1]), np.array([1, 1, 1]), 2)
    assert matrix.tolist() == [[0, 2], [0, 1]]

"""How much a window of a long document supports the answer, by kind of task."""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from tuneline.tasks import Classification, Task
from tuneline.tasks.task import Logits


@singledispatch
def window_support(_task: Task, windows: Logits, answers: Logits) -> NDArray[np.float64]:
    """Return how much each window of a document supports the answer for it, shape ``(windows,)``.

    Where nothing else is known of the outputs, it is how far they are from the answer: without that
    window, the answer would be another one.

    Args:
        windows: Outputs for the windows, ``(windows, outputs)``.
        answers: Outputs for the document of each window, of the same shape.
    """
    distances: NDArray[np.float64] = np.linalg.norm(windows - answers.astype(np.float64), axis=1)
    return distances


@window_support.register(Classification)
def _(task: Classification, windows: Logits, answers: Logits) -> NDArray[np.float64]:
    """Return the probability that each window alone gives the class of its document."""
    classes = task.predictions(answers)
    scores = task.scores(windows)
    return scores[np.arange(len(scores)), classes]

"""Predictions for many files by one process, which loads the model once: flow ``score`` starts it.

What goes in and comes out is in ``tuneline/predict/scored.py``. A fault of one file stops no other.
"""

import json
import sys
import time
from pathlib import Path

from tuneline.predict.scored import BEGINS, ENDS, JobOptions, input_to_score
from tuneline.program.program_rows import BATCH_SIZE, WINDOW
from tuneline.readers.rows import BadRowPolicy
from tuneline.runtime.disk_errors import explain_disk_errors
from tuneline.runtime.errors import InputError, StageError, refusing
from tuneline.runtime.terminal import say, say_exception


def main() -> None:
    """Predict all files; exit with an error only if the model or the engine cannot be used."""
    from tuneline.predict.model_choice import ModelChoice

    options = JobOptions(**json.loads(sys.argv[1]))
    # The model is loaded here, too, so that a damaged one is reported once and not for each file.
    try:
        with explain_disk_errors():
            ModelChoice(Path(options.model)).load()
    except StageError as error:
        say(f"tuneline predict: {error}", error=True)
        sys.exit(error.status)
    for number, name in enumerate(sys.argv[2:], start=1):
        say(BEGINS.format(number=number))
        status = run_job(Path(name), Path(options.folder, f"{number}.parquet"), options)
        say(ENDS.format(number=number, status=status))


def run_job(path: Path, output: Path, options: JobOptions) -> int:
    """Predict the rows of a file, print what is wrong with it, and return the status."""
    from tuneline.predict.model_choice import ModelChoice
    from tuneline.predict.streaming import StreamOptions, predict_inputs
    from tuneline.predict.writing import PredictionOutput
    from tuneline.readers.inputs import InputColumns

    try:
        model = ModelChoice(Path(options.model)).load()
        columns = InputColumns(model.text_columns, tuple(options.keep))
        with explain_disk_errors(), refusing():
            source = input_to_score(path, Path(options.model))
            if source.layout != source.layout.format.usual:
                say(f"{path.name}: read as {source.layout.described()}", error=True)
            policy = BadRowPolicy(options.max_bad_share, "scoring.max_bad_share")
            started = time.perf_counter()
            counts = predict_inputs(
                model,
                [source],
                columns,
                PredictionOutput(output, "parquet"),
                StreamOptions(BATCH_SIZE, WINDOW, policy),
            )
            counts.print_summary(model, started)
    except InputError as error:
        # Without its hint, which may quote the file: people read the reason who may not read the file.
        say(f"tuneline predict: {error.problem}", error=True)
        return error.status
    except StageError as error:
        say(f"tuneline predict: {error}", error=True)
        return error.status
    except Exception:
        say_exception(*sys.exc_info())
        return 1
    return 0


if __name__ == "__main__":
    main()

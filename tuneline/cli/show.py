"""``tuneline show``: the latest result of the pipeline: metrics, commit and paths."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from tuneline.analysis.leaks import BaselineComparison, LeakEffect
from tuneline.cli.console import Console
from tuneline.core.errors import StageError
from tuneline.core.paths import BASE_RECORD
from tuneline.core.provenance import BaseSource
from tuneline.core.records import Metrics
from tuneline.metrics.table import METRIC_TABLE, custom_metrics, title_of
from tuneline.project.dvc import Lock, changed_by_machine, read_lock
from tuneline.project.repo import CLASSIFIER, EVALUATED, commit_of, lock_at, registered

if TYPE_CHECKING:
    from tuneline.reports.export import ExportRecord

BASELINE_TITLES = {
    **{metric.baseline: f"{metric.title} of the baseline" for metric in METRIC_TABLE.values() if metric.baseline},
    **{metric.tfidf: f"{metric.title} of TF-IDF" for metric in METRIC_TABLE.values() if metric.of_predictions},
    "rows": "Rows",
}
"""Titles of the numbers in metrics/evaluate.json that are shown after the metrics of the model, in this order."""
COMPARED_TITLES = {
    "agreement": "agreement with the trained model",
    **{f"{metric.name}_drop": f"{metric.title} lost" for metric in METRIC_TABLE.values() if metric.resampled},
    "max_abs_diff": "largest difference of a logit",
}
"""Titles of the numbers in metrics/compare.json that are shown for each precision."""

PATHS = {
    "model": "models/classifier",
    "ONNX": "models/onnx",
    "report": "reports/index.html",
    "model card": "reports/model_card.md",
    "data checks": "reports/checks/index.html",
    "predictions": "reports/predictions.parquet",
}

NEXT_STEPS = """\
Try next:
  dvc exp run -S train.epochs=3               another value, compared with  dvc metrics diff
  dvc exp run -S task=mrpc                    another task (conf/task/)
  tuneline init FILE.csv --checkpoint NAME    your own data, with a pretrained model
  tuneline predict FILE                       the model at work"""

Folder = Annotated[Path | None, typer.Argument(help="A folder of exported models; the project unless given")]
Against = Annotated[
    str | None,
    typer.Option("--against", metavar="REV", help="Compare with the model of another commit on the rows of both, by the present labels"),
]


def command(folder: Folder = None, against: Against = None) -> None:
    """Show the latest result of the pipeline: its metrics, its commit, and where its files are."""
    console = Console(soft_wrap=True)
    if against is not None:
        show_against(console, against, folder)
        return
    if folder is not None:
        show_export(console, folder)
        return
    show(console)
    console.print(Text(f"\n{NEXT_STEPS}"))
    if note := machine_note(Path()):
        console.print(Text(f"\n{note}"))


def show(console: Console, root: Path = Path()) -> None:
    """Print metrics, provenance and paths.

    Raises:
        StageError: The pipeline has not run in this checkout.
    """
    path = root / EVALUATED
    if not path.exists():
        raise StageError(f"{path} is missing: the pipeline has not run here yet.", "Run `make run` or `dvc repro`.")
    lock = read_lock(root)
    compared = Metrics.read_if_exists(root / "metrics/compare.json")
    evaluated = Metrics.read(path).values
    console.print(quality_table(evaluated, compared.values if compared else {}, reported_split(lock)))
    if against_tfidf := BaselineComparison.read(evaluated):
        console.print(Text(f"{against_tfidf.sentence}\n"))
    if leak_effect := LeakEffect.read(evaluated):
        console.print(Text(f"{leak_effect.sentence}\n"))
    _print_facts(console, {**provenance(root, lock), **existing_paths(root)})


def show_against(console: Console, revision: str, folder: Path | None) -> None:
    """Print the metrics of this model and of that of another commit on the rows of both, with the intervals of the differences.

    Raises:
        StageError: They cannot be compared.
    """
    from tuneline.cli.against import compare_with, comparison_table, describe  # without --against, `show` starts faster

    if folder is not None:
        raise StageError("--against compares the model of this project, not a folder of models.", "Leave the folder out.")
    path = Path(EVALUATED)
    if not path.exists():
        raise StageError(f"{path} is missing: the pipeline has not run here yet.", "Run `make run` or `dvc repro`.")
    comparison = compare_with(Path(), revision)
    console.print(comparison_table(comparison, revision))
    console.print(Text(describe(comparison, revision)))


def machine_note(root: Path) -> str | None:
    """Return one line if outs differ from the committed ``dvc.lock`` only because of the machine; else ``None``."""
    changed = changed_by_machine(read_lock(root), lock_at(root, "HEAD"))
    if not changed:
        return None
    first = CLASSIFIER if CLASSIFIER in changed else changed[0]
    differ = f"and {len(changed) - 1} more outs differ" if len(changed) > 1 else "differs"
    return (
        f"Note: {first} {differ} from the committed dvc.lock, and code, data and parameters do not: this machine has another "
        "processor, number of threads or build of torch, which rounds differently. Commit these: git commit -m 'Run on another "
        "machine' dvc.lock metrics. Or go back, if a DVC remote has the committed ones: git checkout dvc.lock metrics && dvc pull."
    )


def quality_table(evaluated: Mapping[str, float], compared: Mapping[str, float], split: str) -> Table:
    """Return one row for each metric of the trained model, then for each comparison of an exported model with it."""
    table = Table(title=f"Quality on {split}", title_justify="left", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    titles = {name: title_of(name) for name in (*METRIC_TABLE, *custom_metrics(evaluated))}
    for key, title in (titles | BASELINE_TITLES).items():
        if key in evaluated:
            table.add_row(title, f"{evaluated[key]:,.6g}")
    for precision in [key.removesuffix("_agreement") for key in compared if key.endswith("_agreement")]:
        table.add_section()
        for key, title in COMPARED_TITLES.items():
            if f"{precision}_{key}" in compared:
                table.add_row(f"ONNX {precision}: {title}", f"{compared[f'{precision}_{key}']:,.6g}")
    return table


def provenance(root: Path, lock: Lock) -> dict[str, str]:
    """Return the version of the model in ``dvc.lock``, the commit that added it, and its names in the registry."""
    version = lock.out(CLASSIFIER)
    if version is None:
        return {"version": "not in dvc.lock: the pipeline has not finished yet"}
    commit = commit_of(root, version)
    facts = {
        "version": version,
        "commit": str(commit) if commit else "not committed yet: git add params.yaml dvc.lock metrics && git commit",
    }
    tags = registered(root, version, commit) if commit else []
    return facts | base_facts(BaseSource.read_if_valid(root / BASE_RECORD)) | ({"registry": ", ".join(tags)} if tags else {})


def base_facts(base: BaseSource | None) -> dict[str, str]:
    """Return the base model and, if it is not the checkpoint's own, the tokenizer: name, commit, licence and hash."""
    if base is None:
        return {}
    facts = {"base": base.checkpoint.description if base.checkpoint else "none: trained from scratch"}
    other = base.tokenizer and (base.checkpoint is None or base.tokenizer.name != base.checkpoint.name)
    return facts | ({"tokenizer": base.tokenizer.description} if base.tokenizer and other else {})


def existing_paths(root: Path) -> dict[str, str]:
    """Return the paths of the results that exist, by title."""
    return {name: path for name, path in PATHS.items() if (root / path).exists()}


def reported_split(lock: Lock) -> str:
    """Return the split of metrics/evaluate.json, as recorded in ``dvc.lock``."""
    return str(lock.params().get("evaluate.split", "the reported split"))


def show_export(console: Console, folder: Path) -> None:
    """Print the record of a folder of exported models, which may be far from its project.

    Raises:
        StageError: The folder has no ``export.json``.
    """
    from tuneline.reports.export import EXPORT_RECORD, ExportRecord  # without a folder, `show` starts faster

    path = folder / EXPORT_RECORD
    if not path.exists():
        raise StageError(
            f"{folder} has no export.json: it is not a folder of models that Tuneline exported.", "For example: tuneline show models/onnx"
        )
    record = ExportRecord.read(path, f"`git log -- {path}` names the commit whose Tuneline reads it, or export the model again.")
    for precision, model in record.models.items():
        if model.metrics:
            console.print(quality_table(model.metrics, {}, f"{record.split}, {precision}"))
    _print_facts(console, export_facts(record))


def export_facts(record: "ExportRecord") -> dict[str, str]:
    """Return the most important entries of ``export.json``."""
    made = record.provenance
    devices = made.stages["train"].devices
    return {
        "task": f"{record.task}: {', '.join(record.text_columns)} -> {', '.join(record.labels or []) or 'a number'}",
        "reads": f"at most {record.max_length} tokens, {record.architecture}",
        **{precision: f"{model.file}, {model.bytes / 2**20:.1f} MB" for precision, model in record.models.items()},
        **base_facts(made.base),
        "data": ", ".join(f"{split} {sha[:12]}" for split, sha in made.data.sha256.items()),
        "parameters": made.parameters_hash[:12],
        "code": ", ".join(f"{name} {stage.code[:12]}" for name, stage in made.stages.items()),
        "libraries": ", ".join(f"{name} {version}" for name, version in made.libraries.items()),
        **({"trained on": str(devices)} if devices else {}),
    }


def _print_facts(console: Console, facts: Mapping[str, str]) -> None:
    for name, value in facts.items():
        console.print(Text(f"{name:>12}  {value}"))

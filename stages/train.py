"""Trains the classifier on the tokenized splits. Started by ``accelerate launch --config_file conf/accelerate/NAME.yaml -m stages.train``.

Reads: ``data/tokenized/{train,validation}.parquet``, ``data/tokenized/tokenizer/``, the sections ``seed``, ``model`` and ``train``.
Computes: an own loop on accelerate; the best weights by the validation metric, or the last ones.
Writes: ``models/classifier/``, ``plots/training/{loss,validation}.tsv``, ``metrics/train.json``.
"""

import time

from stages.batches import TokenizedSplit
from stages.entry import Figures, require, run_stage
from stages.outs import replace_directory, write_metrics
from stages.params import Params
from stages.params.loading import load_params
from stages.paths import CLASSIFIER, METRICS, PLOTS, TOKENIZED, TOKENIZER, split_file


def main() -> Figures:
    """Trains, and publishes what came out."""
    params = load_params()
    train = TokenizedSplit.read(require(split_file(TOKENIZED, "train"), made_by="tokenize"))
    validation = TokenizedSplit.read(require(split_file(TOKENIZED, "validation"), made_by="tokenize"))
    return run(params, train, validation)


def run(params: Params, train: TokenizedSplit, validation: TokenizedSplit) -> Figures:
    """Trains on ``train``, chooses on ``validation``, and writes the outs."""
    import torch
    from accelerate import Accelerator
    from transformers import AutoTokenizer

    from stages.training.feeding import Feed
    from stages.training.loop import Run, fit
    from stages.training.losses import Loss
    from stages.training.model import build_model
    from stages.training.optimizer import build_optimizer
    from stages.training.order import Order
    from stages.training.publishing import publish_model, write_curve
    from stages.training.schedule import build_schedule, total_steps

    accelerator = Accelerator(step_scheduler_with_optimizer=False)
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    torch.manual_seed(params.seed)
    model = build_model(params.model, train.spec, tokenizer)
    optimizer = build_optimizer(model, params.train)
    order = Order(train.lengths, params.train.global_batch_size, params.train.bucket_window, params.seed)
    steps = total_steps(params.train, order.groups_per_epoch)
    schedule = build_schedule(optimizer, params.train, steps)
    prepared = accelerator.prepare(model, optimizer, schedule)
    feeds = [Feed(split, tokenizer.pad_token_id, accelerator.device) for split in (train, validation)]
    state = Run(accelerator, params.train, *prepared, order, Loss(train.spec.is_regression), *feeds, steps)
    started = time.perf_counter()
    fit(state)
    seconds = time.perf_counter() - started
    progress = state.progress
    last = accelerator.get_state_dict(state.model)
    if accelerator.is_main_process:
        publish_model(model, state.best_weights if params.train.keep == "best" else last, TOKENIZER, CLASSIFIER)
        with replace_directory(PLOTS / "training") as plots:
            write_curve(plots / "loss.tsv", ("step", "loss", "learning_rate", "gradient_norm"), progress.logged)
            write_curve(plots / "validation.tsv", ("step", "loss", params.train.metric), progress.evaluated)
        name = params.train.metric
        write_metrics(
            METRICS / "train.json",
            {
                "steps": progress.step,
                "best_step": progress.best_step,
                "train_loss": progress.logged[-1][1],
                "final_loss": progress.evaluated[-1][1],
                "best_loss": min(loss for _, loss, _ in progress.evaluated),
                f"final_{name}": progress.evaluated[-1][2],
                f"best_{name}": progress.best_metric,
            },
        )
    return {"training_seconds": round(seconds, 2), "samples_per_second": round(progress.step * params.train.global_batch_size / seconds, 1)}


if __name__ == "__main__":
    run_stage("train", main)

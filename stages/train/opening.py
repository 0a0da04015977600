"""What is said before the first step, so that a wrong device, a frozen body or a broken head is seen at once."""

import math

import torch

from stages.train.devices import describe
from stages.train.loop import Run
from stages.train.order import share
from tuneline.errors import DataError


def report(run: Run) -> None:
    """Prints device, parameters, the first batch's shapes, and the loss before anything is learned.

    Raises:
        DataError: That loss is no number.
    """
    run.watch.say(describe(run.accelerator))
    parameters = list(run.model.parameters())
    learning = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    run.watch.say(f"{learning:,} of {sum(parameter.numel() for parameter in parameters):,} parameters learn")
    if run.first_token_only:
        run.watch.say("the last layer computes the first token alone: the classifier reads no other")
    loss, shapes = first_loss(run)
    run.watch.say(f"first micro batch: {shapes}")
    say_loss(run, loss)


def first_loss(run: Run) -> tuple[float, str]:
    """The loss of the first micro batch of each process, without dropout; and the shapes of this process's tensors."""
    accelerator = run.accelerator
    rows = share(run.order.epoch(0)[0], run.micro_batch_size, accelerator.num_processes, accelerator.process_index)[0]
    inputs = run.train.inputs(rows)
    run.model.eval()
    with torch.no_grad():
        losses = run.loss.per_example(run.model(**inputs).logits[: len(rows)], run.train.labels(rows))
    run.model.train()
    sums = torch.tensor([float(losses.sum()), run.loss.total_weight(run.train.split.labels[rows])], device=accelerator.device)
    total, weight = accelerator.reduce(sums, "sum").tolist()
    return total / weight, ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in inputs.items())


def say_loss(run: Run, loss: float) -> None:
    """A head that knows nothing gives every class the same probability, and so a loss of ln(classes)."""
    if not math.isfinite(loss):
        raise DataError(f"The loss before the first step is {loss}.", "The checkpoint holds weights that are no numbers, or the labels do.")
    if run.loss.regression:
        run.watch.say(f"initial loss {loss:.4f}")
        return
    chance = math.log(run.train.split.label_schema.outputs)
    run.watch.say(f"initial loss {loss:.4f}; knowing nothing gives ln({run.train.split.label_schema.outputs}) = {chance:.4f}")
    if loss > 1.5 * chance + 0.5:
        run.watch.say("WARNING: it starts far worse than knowing nothing. Look at the head, the label order and the checkpoint.")

"""The rooms of the train stage: order of examples, model, optimizer, loop, evaluation, checkpoints, and what a person sees of it."""

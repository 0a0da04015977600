"""Devices that a model was trained on: another kind, precision or number of processes gives other weights."""

from collections.abc import Mapping, Sequence

from tuneline.core.records import OMITTED, Record


class TrainingSegment(Record):
    """A part of a training with one layout on one kind of machine.

    The bytes of a model repeat only if there is no other part.
    """

    step: int
    """Optimizer steps that were done before it."""
    device: str
    """Type of the device, as torch names it."""
    processes: int
    micro_batch_size: int
    micro_batch_tokens: int | None = OMITTED
    threads: int | None = OMITTED
    """Threads of each process, on a CPU."""
    processor: str | None = OMITTED
    """The GPU's name, or the instructions of the CPU that torch uses, with the variables that limit them."""
    libraries: Mapping[str, str] | None = OMITTED
    """Versions of Python and of the libraries."""

    def __str__(self) -> str:
        layout = "1 process" if self.processes == 1 else f"{self.processes} processes"
        if self.threads:
            layout += " with 1 thread" if self.threads == 1 else f" with {self.threads} threads"

        kind = [self.device]
        if self.processor:
            kind.append(self.processor)
        if self.libraries:
            kind.append(f"Python {self.libraries['python']}")
        kind.append(f"micro_batch_size {self.micro_batch_size}")
        if self.micro_batch_tokens:
            kind.append(f"micro_batch_tokens {self.micro_batch_tokens}")
        return f"{layout} ({', '.join(kind)})"

    def has_layout_of(self, other: "TrainingSegment") -> bool:
        """Return True if the two segments differ in nothing but the step."""
        return self.model_copy(update={"step": other.step}) == other


class DevicesUsed(Record):
    """Devices that a model was trained on."""

    type: str
    """``cpu``, ``cuda`` or another type of torch."""
    precision: str
    """``no`` (float32), ``fp16`` or ``bf16``."""
    processes: int
    distribution: str
    """How accelerate distributes the training: ``NO``, ``MULTI_GPU``, ``FSDP``, ..."""
    segments: Sequence[TrainingSegment] | None = OMITTED
    """Parts of a training that was resumed with another layout or on another kind of machine.

    Its bytes are not promised to repeat.
    """

    def __str__(self) -> str:
        precision = "float32" if self.precision == "no" else self.precision
        text = f"{self.type}, {precision}"
        if self.processes > 1:
            text += f", {self.processes} processes ({self.distribution})"
        if self.segments:
            parts = [f"from step {segment.step} {segment}" for segment in self.segments]
            text += f"; the bytes are not those of one kind of machine: {'; '.join(parts)}"
        return text

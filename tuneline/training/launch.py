"""Start the processes of a training with accelerate's launcher.

Start: ``python -m tuneline.training.launch MODULE``, with any flags of ``accelerate launch``; the function
``run`` of the module trains. The processes run on the devices that ``train.launch`` names, or that are chosen
here. One process needs no other: accelerate's launcher prepares the environment, and the training runs in
this process. Several processes are started by accelerate's launcher (torchrun), and this process waits for
them.
"""

import argparse
import importlib
import logging
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from tuneline.core.params import Params
from tuneline.core.params.loading import load_params
from tuneline.core.runtime.errors import ParamsError, StageError, explain_disk_errors
from tuneline.core.runtime.processes import PARENT, end_with_parent
from tuneline.core.runtime.terminal import say
from tuneline.core.stage import entry as stage  # noqa: F401 - sets variables that libraries read when they are imported
from tuneline.core.stage.launch import AUTO, DeviceChoice, check_launch, choose_devices, launch_file
from tuneline.core.stage.machine import cpu_is_forced, threads

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

INTERRUPTED = os.EX_TEMPFAIL
"""Exit code of an interrupted run that can be resumed: 75."""
LAUNCHED = ("DVC_STAGE", "ACCELERATE_MIXED_PRECISION", "TORCHELASTIC_RUN_ID")
"""Environment variables that DVC, accelerate's launcher and torchrun set for the processes they start."""
STOPPING = (signal.SIGTERM, signal.SIGINT)
ALLOCATOR = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
}
"""Environment of a training with which glibc asks for huge pages, and keeps freed memory for the next step.

By default it returns a tensor of more than 32 MiB, such as the gradient of a vocabulary, to the system, and
gets it back page by page (docs/benchmarks.md).
"""


def main() -> NoReturn:
    """Train, and exit: 0 after success, 1 or 78 after an error, 75 after an interruption."""
    environment = {**ALLOCATOR, **os.environ}
    if environment != os.environ:  # glibc reads them when a program starts
        os.execve(sys.executable, sys.orig_argv, environment)  # noqa: S606 - this program once more

    end_with_launcher()
    try:
        with explain_disk_errors():
            module, *flags = sys.argv[1:] or [""]
            if not module or module.startswith("-"):
                hint = "Name what trains: python -m tuneline.training.launch stages.train"
                raise ParamsError("the module is missing.", hint)
            code = launch(module, load_params(), flags)
    except StageError as error:
        say(f"train: {error}", error=True)
        code = error.stage_status
    except Exception:
        say(traceback.format_exc(), error=True)
        code = 1
    sys.exit(code)


def launch(module: str, params: Params, flags: list[str]) -> int:
    """Start the training of a module as ``train.launch`` says, and return its exit code.

    ``flags`` are further flags of ``accelerate launch``.
    """
    train = params.train
    check_launch(train.launch)
    user_threads = os.environ.get("OMP_NUM_THREADS")
    cores = threads()
    os.environ["OMP_NUM_THREADS"] = str(cores)  # before torch is imported: OpenMP reads it once

    # what the configuration leaves open
    choice = None
    if AUTO in (train.launch, train.mixed_precision):
        choice = choose_devices(train.launch, train.global_batch_size, train.mixed_precision)
        say(f"train: auto chooses {choice}")
    args = launch_arguments(module, train.launch, choice, flags)
    if args.num_processes == 1 and args.num_machines == 1:
        return train_here(module, args)

    if user_threads is None:
        processes_here = max(args.num_processes // args.num_machines, 1)
        args.num_cpu_threads_per_process = max(cores // processes_here, 1)
        os.environ["OMP_NUM_THREADS"] = str(args.num_cpu_threads_per_process)
    return run_torchrun(args)


def launch_arguments(
    module: str, name: str, choice: DeviceChoice | None, flags: list[str]
) -> argparse.Namespace:
    """Return the arguments of ``accelerate launch``, completed from the launch configuration."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    options = ["--config_file", str(launch_file(name)), "--num_cpu_threads_per_process", str(threads())]
    if choice is not None and name == AUTO:  # all that it leaves open, so that accelerate warns of nothing
        options += ["--num_processes", str(choice.processes)]
        if choice.device == "cpu":
            options.append("--cpu")
        if choice.device == "cuda" and choice.processes > 1:
            options.append("--multi_gpu")
    options += flags
    options += ["--module", module]
    try:
        args: argparse.Namespace
        args, _, _ = _validate_launch_command(launch_command_parser().parse_args(options))
    except ValueError as error:
        hint = f"`accelerate config --config_file {launch_file(name)}` asks for valid values."
        raise ParamsError(f"{launch_file(name)}: accelerate refuses it: {error}", hint) from None
    _refuse_other_launchers(args, name)
    args.use_cpu = bool(args.use_cpu or args.cpu or cpu_is_forced())
    if choice is not None:
        args.mixed_precision = choice.precision
    if args.num_machines == 1 and args.main_process_port is None:
        args.main_process_port = 0  # any free port
    return args


def _refuse_other_launchers(args: argparse.Namespace, name: str) -> None:
    """Refuse what accelerate starts in another way than torchrun: it would train as plain DDP."""
    launchers = {"DeepSpeed": args.use_deepspeed, "Megatron-LM": args.use_megatron_lm, "a TPU": args.tpu}
    for launcher, is_asked in launchers.items():
        if is_asked:
            raise ParamsError(
                f"train.launch: {launch_file(name)}, or a flag, asks for {launcher}, which is not supported.",
                f"Choose DDP (distributed_type: MULTI_GPU), or FSDP as in {launch_file('fsdp')}.",
            )


def train_here(module: str, args: argparse.Namespace) -> int:
    """Train in this process, in the environment that accelerate prepares for a new one."""
    from accelerate.utils.launch import prepare_simple_launcher_cmd_env

    _, environment = prepare_simple_launcher_cmd_env(args)
    os.environ.update(environment)
    code: int = importlib.import_module(module).run()
    return code


def run_torchrun(args: argparse.Namespace) -> int:
    """Start several processes, wait for them, and return one exit code for all.

    torchrun passes signals on to them, and kills after 30 seconds those that have not saved their checkpoint.
    """
    from accelerate.commands.launch import multi_gpu_launcher
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    os.environ[PARENT] = str(os.getpid())
    if args.use_cpu:
        os.environ["ACCELERATE_USE_CPU"] = "true"  # accelerate alone would start one process only
    if "LOGLEVEL" not in os.environ:  # the last line of a run says how its processes ended
        import torch.distributed.run

        for name in logging.getLogger().manager.loggerDict:
            if name.startswith(torch.distributed.__name__):
                logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        multi_gpu_launcher(args)
    except ChildFailedError as error:
        return common_exit_code(error)
    except SignalException:
        say("train: stopped; `dvc repro` resumes from the last checkpoint.", error=True)
        return INTERRUPTED
    return 0


def common_exit_code(error: "ChildFailedError") -> int:
    """Return one exit code for several processes, and print the message of one with a ``StageError``."""
    # the first one that failed: others may have failed because of it
    failures: list[Any] = sorted(error.failures.values(), key=lambda failure: int(failure.timestamp))
    if any(failure.exitcode == INTERRUPTED for failure in failures):
        return INTERRUPTED
    for failure in failures:
        if failure.error_file_data.get("stage"):  # see tuneline.core.stage.entry.report_error
            say(failure.message, error=True)
            return int(failure.exitcode)
    code = int(failures[0].exitcode)
    if code < 0:  # as a shell reports signal N
        code = 128 - code
    return code


def end_with_launcher() -> None:
    """Get SIGTERM when the process that started this one ends.

    Then a checkpoint is saved, and nothing is published. A process that a person started, in a terminal or
    with nohup, may outlive what started it.
    """
    if PARENT in os.environ or any(name in os.environ for name in LAUNCHED):
        end_with_parent(int(os.environ.get(PARENT, os.getppid())))


if __name__ == "__main__":
    main()

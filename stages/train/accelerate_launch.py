"""Start the processes of a training with accelerate's launcher.

They run on the devices that ``train.launch`` names, or that are chosen here. Start: ``python -m
stages.train.accelerate_launch``, from stages/train/launch.py. One process needs no other: accelerate's
launcher prepares the environment, and the training runs in this process, which has imported torch already.
Several processes are started by accelerate's launcher (torchrun, for most configurations), and this process
waits for them.
"""

import argparse
import logging
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from stages.train.launch import CRASHED, INTERRUPTED, STOPPING, end_with_launcher
from tuneline.core import stage  # noqa: F401 - sets variables that libraries read when they are imported
from tuneline.core.launch import (
    AUTO,
    DeviceChoice,
    Devices,
    check_launch,
    choose_processes,
    find_devices,
    launch_file,
    read_launch,
)
from tuneline.core.machine import computes_bf16, cpu_is_forced, threads
from tuneline.params import Params
from tuneline.params.loading import load_params
from tuneline.runtime.disk_errors import explain_disk_errors
from tuneline.runtime.errors import ParamsError, StageError
from tuneline.runtime.processes import PARENT, terminate_descendants
from tuneline.runtime.terminal import say

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

TRAINING = "stages.train"
MACHINE_VARIABLES = {
    "PET_NNODES": "--num_machines",
    "PET_NODE_RANK": "--machine_rank",
    "PET_MASTER_ADDR": "--main_process_ip",
    "PET_MASTER_PORT": "--main_process_port",
}
"""Flags of ``accelerate launch`` by the environment variable of ``torchrun`` that means the same.

Kubeflow's operator sets these variables, too.
"""


def main() -> NoReturn:
    """Train, and exit with the code of the training; see ``stages.train.launch.describe_end``."""
    end_with_launcher()
    try:
        with explain_disk_errors():
            code = launch(load_params(), sys.argv[1:])
    except StageError as error:
        say(f"train: {error}", error=True)
        code = error.stage_status
    except Exception:
        say(traceback.format_exc(), error=True)
        code = CRASHED
    sys.exit(code)


def launch(params: Params, flags: list[str]) -> int:
    """Start the training as ``train.launch`` says, and return its exit code.

    ``flags`` are further flags of ``accelerate launch``.
    """
    train = params.train
    check_launch(train.launch, train.optimizer)
    user_threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(threads())  # before torch is imported: OpenMP reads it once

    # devices
    user_flags = machine_flags(train.launch, os.environ) + flags
    choice = None
    if AUTO in (train.launch, train.mixed_precision):
        choice, reasons = choose_devices(params)
        message = f"train: auto chooses {choice}"
        if reasons:
            message += f" ({reasons})"
        say(message)

    # arguments of accelerate's launcher
    parsed = parse_launch(train.launch, chosen_flags(train.launch, choice, user_flags) + user_flags)
    args = validate(train.launch, parsed, choice)
    if args.num_machines > 1:
        main_address = f"{args.main_process_ip}:{args.main_process_port}"
        say(
            f"train: machine {args.machine_rank} of {args.num_machines} (0 is the main one, {main_address}),"
            f" {args.num_processes} processes on all; starts when every machine has started"
        )
    if user_threads is None:
        os.environ["OMP_NUM_THREADS"] = str(threads_per_process(args))

    return start_processes(parsed, args)


def start_processes(parsed: argparse.Namespace, args: argparse.Namespace) -> int:
    """Start the training with the function of accelerate that suits the arguments; return its exit code.

    ``parsed`` are the arguments of the command line, and ``args`` the same, completed from the configuration.
    """
    from accelerate.commands import launch as accelerate
    from accelerate.utils.launch import prepare_simple_launcher_cmd_env

    os.environ[PARENT] = str(os.getpid())
    by_mpirun = args.mpirun_hostfile is not None
    is_distributed = args.num_processes > 1 or args.num_machines > 1
    if args.use_cpu and is_distributed and not by_mpirun:
        os.environ["ACCELERATE_USE_CPU"] = "true"  # accelerate alone would start one process only
        return run_launcher(accelerate.multi_gpu_launcher, args)
    if args.multi_gpu or args.use_fsdp:
        return run_launcher(accelerate.multi_gpu_launcher, args)
    if args.use_deepspeed or args.use_megatron_lm or args.tpu or args.mpirun_hostfile or args.on_sagemaker:
        # mpirun and others have processes of their own between this one and the training
        del os.environ[PARENT]
        return run_launcher(accelerate.launch_command, parsed)

    # one process: accelerate prepares the environment of a new one, and the training runs in this one
    _, environment = prepare_simple_launcher_cmd_env(args)
    os.environ.update(environment)
    from stages.train.__main__ import run

    return run()


def choose_devices(params: Params) -> tuple[DeviceChoice, str]:
    """Return what ``auto`` chooses, and the reasons for the CPU and for its precision.

    The reasons are empty for other devices. With ``train.launch: cpu``, only the precision is open.
    """
    if params.train.launch == AUTO:
        devices = find_devices()
    else:
        devices = Devices(cpu_bf16=computes_bf16())
    choice = choose_processes(devices, params.train.global_batch_size, params.train.mixed_precision)

    reasons = []
    if devices.why_cpu:
        reasons.append(devices.why_cpu)
    if choice.device == "cpu" and params.train.mixed_precision == "auto":
        from stages.train.precision import choose_cpu_precision

        precision, reason = choose_cpu_precision(choice, params)
        choice = replace(choice, precision=precision)
        reasons.append(reason)
    return choice, "; ".join(reasons)


def chosen_flags(name: str, choice: DeviceChoice | None, user_flags: Sequence[str] = ()) -> list[str]:
    """Return the flags of ``accelerate launch`` for what a launch configuration leaves open.

    With all of them, accelerate warns of none. ``choice`` is what ``auto`` has chosen; ``user_flags`` come
    later on the command line.
    """
    if choice is not None and name == AUTO:
        flags = ["--num_processes", str(choice.processes)]
        if choice.device == "cpu":
            flags.append("--cpu")
        if choice.device == "cuda" and choice.processes > 1:
            flags.append("--multi_gpu")
        return flags

    config = read_launch(name)
    has_processes = isinstance(config.get("num_processes"), int) or "--num_processes" in user_flags
    if has_processes or config.get("distributed_type", "NO") == "NO":
        return []

    # a process for each GPU of each machine
    gpu_ids = str(config.get("gpu_ids") or "all")
    if gpu_ids == "all":
        count = find_devices().count
    else:
        count = len(gpu_ids.split(","))
    machines = config.get("num_machines") or 1
    if "--num_machines" in user_flags:
        machines = user_flags[user_flags.index("--num_machines") + 1]
    return ["--num_processes", str(count * int(machines))]


def machine_flags(name: str, environ: Mapping[str, str]) -> list[str]:
    """Return the flags of ``accelerate launch`` for the machines that a scheduler describes to torchrun."""
    nodes = environ.get("PET_NNODES", "1")
    if not nodes.isdecimal():  # torchrun takes a range as well, such as 1:4
        raise ParamsError(
            f"PET_NNODES is {nodes!r}, but a training has a fixed number of machines.",
            "Set it to this number.",
        )
    machines = int(nodes)
    if machines == 1:
        return []
    if int(read_launch(name).get("num_machines") or 1) == 1:
        raise ParamsError(
            f"train.launch: PET_NNODES is {machines}, but {launch_file(name)} is for one machine.",
            "Set train.launch to multi-node.",
        )

    flags = []
    for variable, flag in MACHINE_VARIABLES.items():
        if variable in environ:
            flags += [flag, environ[variable]]
    if "PET_NPROC_PER_NODE" in environ:
        processes = int(environ["PET_NPROC_PER_NODE"]) * machines
        flags += ["--num_processes", str(processes)]
    return flags


def parse_launch(name: str, flags: list[str]) -> argparse.Namespace:
    """Return the arguments of ``accelerate launch`` for a launch configuration and flags."""
    from accelerate.commands.launch import launch_command_parser

    options = [
        "--config_file",
        str(launch_file(name)),
        "--num_cpu_threads_per_process",
        os.environ["OMP_NUM_THREADS"],
    ]
    args: argparse.Namespace = launch_command_parser().parse_args([*options, *flags, "--module", TRAINING])
    # torchrun's: run_launcher handles the others, without a time limit for the checkpoint
    args.signals_to_handle = "SIGHUP,SIGQUIT"
    return args


def validate(name: str, parsed: argparse.Namespace, choice: DeviceChoice | None) -> argparse.Namespace:
    """Return the arguments completed from the configuration, as ``accelerate launch`` does it."""
    from accelerate.commands.launch import _validate_launch_command

    try:
        args: argparse.Namespace
        args, defaults, _ = _validate_launch_command(argparse.Namespace(**vars(parsed)))
    except ValueError as error:
        hint = f"`accelerate config --config_file {launch_file(name)}` asks for valid values."
        raise ParamsError(f"{launch_file(name)}: accelerate refuses it: {error}", hint) from None
    args.use_cpu = bool(args.use_cpu or args.cpu or cpu_is_forced())
    args.on_sagemaker = defaults.compute_environment != "LOCAL_MACHINE"
    if choice is not None:
        args.mixed_precision = choice.precision
    if args.num_machines == 1 and args.main_process_port is None:
        args.main_process_port = 0  # any free port
    return args


def threads_per_process(args: argparse.Namespace) -> int:
    """Return the threads of each process of this machine, and set them in the arguments."""
    cores = int(args.num_cpu_threads_per_process)
    args.num_cpu_threads_per_process = max(cores // max(args.num_processes // args.num_machines, 1), 1)
    return int(args.num_cpu_threads_per_process)


def run_launcher(launcher: Callable[[argparse.Namespace], None], args: argparse.Namespace) -> int:
    """Start processes with a function of accelerate, wait for them, and return one exit code for all."""
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    stop_on_signals()
    hide_torchrun_log()
    # what a process ended with is in the exception of its launcher: torchrun, mpirun and others, or a signal
    try:
        launcher(args)
    except ChildFailedError as error:
        return common_exit_code(error)
    except subprocess.CalledProcessError as error:
        if error.returncode < 0:  # as a shell reports signal N
            return 128 - error.returncode
        return error.returncode
    except SignalException as error:
        return 128 + error.sigval
    except (DistError, ConnectionError) as error:  # between the launchers: processes report their own
        raise StageError(
            f"The machines did not find each other at {args.main_process_ip}:{args.main_process_port}:"
            f" {str(error).splitlines()[0]}",
            "Start the training on all machines, with the same address of the main one, and a port that no"
            " other program uses there.",
        ) from None
    return 0


def stop_on_signals() -> None:
    """Let a thread handle the signals.

    Python's handlers do not run while a native function waits for the other machines. But Python's C code
    writes the number of each signal to a file, here a pipe, which the thread reads.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    for number in STOPPING:
        signal.signal(number, lambda *_: None)

    def stop() -> None:
        number = 0
        while number not in STOPPING:
            number = os.read(read_end, 1)[0]
        if not terminate_descendants():  # torchrun starts them in sessions of their own, without Ctrl-C
            os._exit(128 + number)

    threading.Thread(target=stop, name="stop on signals", daemon=True).start()


def hide_torchrun_log() -> None:
    """Hide torchrun's messages about processes that ended: the last line of a run says it.

    With the variable ``LOGLEVEL``, they are shown.
    """
    import torch.distributed.run

    if "LOGLEVEL" not in os.environ:
        for name in logging.getLogger().manager.loggerDict:
            if name.startswith(torch.distributed.__name__):
                logging.getLogger(name).setLevel(logging.CRITICAL)


def common_exit_code(error: "ChildFailedError") -> int:
    """Return one exit code for several processes, and print the message of one with a ``StageError``."""
    # the first one that failed: others may have failed because of it
    failures: list[Any] = sorted(error.failures.values(), key=lambda failure: int(failure.timestamp))
    if any(failure.exitcode == INTERRUPTED for failure in failures):
        return INTERRUPTED
    for failure in failures:
        if failure.error_file_data.get("stage"):  # see tuneline.core.stage.report_error
            say(failure.message, error=True)
            return int(failure.exitcode)
    code = int(failures[0].exitcode)
    return 128 - code if code < 0 else CRASHED


if __name__ == "__main__":
    main()

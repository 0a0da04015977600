"""Start the processes of a training with accelerate's launcher, on the devices that ``train.launch`` names or that are chosen here.

Start: ``python -m stages.train.accelerate_launch``, from stages/train/launch.py. One process needs no other: accelerate's launcher
prepares the environment, and the training runs in this process, which has imported torch already. Several processes are started by
accelerate's launcher (torchrun, for most configurations), and this process waits for them.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import NoReturn

from stages.train.launch import CRASHED, PARENT, end_with_parent
from stages.train.processes import run_launcher
from tuneline import stage  # noqa: F401 - sets variables that libraries read when they are imported
from tuneline.errors import ParamsError, StageError
from tuneline.files.disk_errors import explain_disk_errors
from tuneline.launch import AUTO, Choice, check_launch, choose, find_devices, launch_file, read_launch
from tuneline.machine import cpu_is_forced, threads
from tuneline.params import TrainParams
from tuneline.params.loading import load_params
from tuneline.terminal import say

TRAINING = "stages.train"
MACHINE_VARIABLES = {
    "PET_NNODES": "--num_machines",
    "PET_NODE_RANK": "--machine_rank",
    "PET_MASTER_ADDR": "--main_process_ip",
    "PET_MASTER_PORT": "--main_process_port",
}
"""Flags of ``accelerate launch``, by the environment variable of ``torchrun`` that means the same; Kubeflow's operator sets them, too."""


def main() -> NoReturn:
    """Train, and exit with the code of the training; see ``stages.train.launch.describe_end``."""
    end_with_parent()
    try:
        with explain_disk_errors():
            code = launch(load_params().train, sys.argv[1:])
    except StageError as error:
        say(f"train: {error}", error=True)
        code = 1
    except Exception:
        say(traceback.format_exc(), error=True)
        code = CRASHED
    sys.exit(code)


def launch(params: TrainParams, flags: list[str]) -> int:
    """Start the training as ``params.launch`` says, and return its exit code.

    Args:
        params: The section ``train``.
        flags: Further flags of ``accelerate launch``, such as ``--machine_rank 1``.

    Raises:
        ParamsError: The launch configuration does not suit accelerate or this machine.
    """
    check_launch(params)
    given = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(threads())  # before torch is imported: OpenMP reads it once
    given_flags = [*machine_flags(params.launch, os.environ), *flags]
    choice = choose_devices(params) if params.launch == AUTO else None
    parsed = parse(params.launch, [*chosen_flags(params.launch, choice, given_flags), *given_flags])
    args = validate(params.launch, parsed, choice)
    if args.num_machines > 1:
        say(describe_machines(args))
    if given is None:
        os.environ["OMP_NUM_THREADS"] = str(threads_per_process(args))
    from accelerate.commands import launch as accelerate

    os.environ[PARENT] = str(os.getpid())
    if args.use_cpu and args.mpirun_hostfile is None and (args.num_processes > 1 or args.num_machines > 1):
        os.environ["ACCELERATE_USE_CPU"] = "true"  # accelerate alone would start one process only
        return run_launcher(accelerate.multi_gpu_launcher, args)
    if args.multi_gpu or args.use_fsdp:
        return run_launcher(accelerate.multi_gpu_launcher, args)
    if args.use_deepspeed or args.use_megatron_lm or args.tpu or args.mpirun_hostfile or args.on_sagemaker:
        del os.environ[PARENT]  # mpirun and others have processes of their own between this one and the training
        return run_launcher(accelerate.launch_command, parsed)
    return train_here(args)


def choose_devices(params: TrainParams) -> Choice:
    """Choose devices and precision, and print the choice."""
    devices = find_devices()
    choice = choose(devices, params.global_batch_size, params.mixed_precision)
    reason = f" ({devices.why_cpu})" if devices.why_cpu else ""
    say(f"train: auto chooses {choice}{reason}")
    return choice


def chosen_flags(name: str, choice: Choice | None, given: Sequence[str] = ()) -> list[str]:
    """Return the flags of ``accelerate launch`` for what a launch configuration leaves open. With all of them, accelerate warns of none.

    Args:
        name: Name of the launch configuration.
        choice: What ``auto`` has chosen.
        given: Flags that come later on the command line.
    """
    if choice is not None:
        several = choice.device == "cuda" and choice.processes > 1
        return ["--num_processes", str(choice.processes), *["--cpu"] * (choice.device == "cpu"), *["--multi_gpu"] * several]
    config = read_launch(name)
    if isinstance(config.get("num_processes"), int) or config.get("distributed_type", "NO") == "NO" or "--num_processes" in given:
        return []
    listed = str(config.get("gpu_ids") or "all")
    count = find_devices().count if listed == "all" else len(listed.split(","))
    machines = given[given.index("--num_machines") + 1] if "--num_machines" in given else config.get("num_machines") or 1
    return ["--num_processes", str(count * int(machines))]


def machine_flags(name: str, environ: Mapping[str, str]) -> list[str]:
    """Return the flags of ``accelerate launch`` for the machines that a scheduler describes in the environment.

    Raises:
        ParamsError: They are several, and the launch configuration is for one; or their number is a range.
    """
    given = environ.get("PET_NNODES", "1")
    if not given.isdecimal():
        raise ParamsError(f"PET_NNODES is {given!r}, but a training has a fixed number of machines.", "Set it to this number.")
    machines = int(given)
    if machines == 1:
        return []
    if int(read_launch(name).get("num_machines") or 1) == 1:
        raise ParamsError(
            f"train.launch: PET_NNODES is {machines}, but {launch_file(name)} is for one machine.", "Set train.launch to multi-node."
        )
    values = {flag: environ[variable] for variable, flag in MACHINE_VARIABLES.items() if variable in environ}
    if "PET_NPROC_PER_NODE" in environ:
        values["--num_processes"] = str(int(environ["PET_NPROC_PER_NODE"]) * machines)
    return [word for flag_and_value in values.items() for word in flag_and_value]


def describe_machines(args: argparse.Namespace) -> str:
    """Return the line that a machine prints while it waits for the others."""
    main = f"{args.main_process_ip}:{args.main_process_port}"
    return (
        f"train: machine {args.machine_rank} of {args.num_machines} (0 is the main one, {main}), {args.num_processes} processes on all; "
        "starts when every machine has started"
    )


def parse(name: str, flags: list[str]) -> argparse.Namespace:
    """Return the arguments of ``accelerate launch`` for a launch configuration and flags."""
    from accelerate.commands.launch import launch_command_parser

    options = ["--config_file", str(launch_file(name)), "--num_cpu_threads_per_process", os.environ["OMP_NUM_THREADS"]]
    args: argparse.Namespace = launch_command_parser().parse_args([*options, *flags, "--module", TRAINING])
    args.signals_to_handle = "SIGHUP,SIGQUIT"  # torchrun's: run_launcher handles the others, without a time limit for the checkpoint
    return args


def validate(name: str, parsed: argparse.Namespace, choice: Choice | None) -> argparse.Namespace:
    """Return the arguments completed from the configuration, as ``accelerate launch`` does it.

    Raises:
        ParamsError: accelerate refuses the configuration.
    """
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


def train_here(args: argparse.Namespace) -> NoReturn:
    """Train in this process, with the environment that accelerate's launcher would start another one with.

    Raises:
        SystemExit: Always.
    """
    from accelerate.utils.launch import prepare_simple_launcher_cmd_env

    _, environment = prepare_simple_launcher_cmd_env(args)
    os.environ.update(environment)
    from stages.train.__main__ import run

    run()


if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# Run the pipeline under SLURM, with the training on all machines of the job. Options of sbatch win over those below:
#   sbatch --nodes=4 --gpus-per-node=4 conf/cluster/slurm.sh
# The project's folder, with .venv, is on storage that all machines share, and train.launch is multi-node. DVC and the other stages run on
# the first machine. Before the time limit, all machines save a checkpoint and the job is queued again.
#SBATCH --job-name=tuneline
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@300
#SBATCH --output=slurm-%j.log
#SBATCH --open-mode=append
set -euo pipefail

cd "$SLURM_SUBMIT_DIR"
export PATH="$PWD/.venv/bin:$PATH"
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}" # srun does not take it over since SLURM 22.05
export TUNELINE_LAUNCHER="srun --ntasks-per-node=1 --kill-on-bad-exit=1 bash conf/cluster/slurm-machine.sh"
rm -f reports/interrupted/train.json # of an earlier job
if ! dvc repro "$@"; then
  if [ -e reports/interrupted/train.json ]; then
    scontrol requeue "$SLURM_JOB_ID"
  fi
  exit 1
fi

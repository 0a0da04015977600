#!/usr/bin/env bash
# Start a command on one machine of a SLURM step, with the variables that tell it about the others:
#   srun --nodes=2 --ntasks-per-node=1 bash conf/cluster/slurm-machine.sh COMMAND...
set -euo pipefail

PET_NNODES=$SLURM_STEP_NUM_NODES
PET_NODE_RANK=$SLURM_NODEID
hosts=$(scontrol show hostnames "$SLURM_STEP_NODELIST") # no `head`: scontrol fails when nobody reads its last lines
PET_MASTER_ADDR=${hosts%%$'\n'*}
PET_MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export PET_NNODES PET_NODE_RANK PET_MASTER_ADDR PET_MASTER_PORT
exec "$@"

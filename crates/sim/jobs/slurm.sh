#!/usr/bin/env bash
# Runs a sweep as a Slurm job array, in SHARDS parts, the size of the array:
#
#   sbatch --array=1-SHARDS slurm.sh FILE SHARDS FOLDER
#
#   sbatch --array=1-64 crates/sim/jobs/slurm.sh my.toml 64 runs
#   sim merge runs
#
# FILE is the experiment file, FOLDER keeps the runs: use one for each sweep. Both are on a shared
# disk, and `sim` is in the PATH. A part whose node fails is started again. If parts fail otherwise,
# submit the same command again: parts that are done end at once, the others continue where they
# ended.
#SBATCH --job-name=sim
#SBATCH --array=1-16
#SBATCH --cpus-per-task=1
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
exec sim run "$1" --runs "$3" --shard "$SLURM_ARRAY_TASK_ID/$2"

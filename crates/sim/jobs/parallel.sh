#!/usr/bin/env bash
# Runs a sweep with GNU parallel, in SHARDS parts:
#
#   parallel.sh FILE SHARDS FOLDER [OPTIONS of parallel]
#
#   crates/sim/jobs/parallel.sh my.toml 64 runs
#   crates/sim/jobs/parallel.sh my.toml 64 runs --sshloginfile machines --workdir "$PWD"
#   sim merge runs
#
# FILE is the experiment file, FOLDER keeps the runs: use one for each sweep. Other machines need
# `sim` in their PATH, and FILE and FOLDER on a shared disk. A part that fails is started three
# times. If that is not enough, or the command is interrupted, repeat it: parts that are done are
# skipped, the others continue where they ended.
set -euo pipefail
file=$1 shards=$2 folder=$3
shift 3
mkdir -p "$folder"
# One part at a time on each machine: a part uses all its processors.
seq "$shards" | parallel --quote --jobs 1 --retries 3 --resume-failed --joblog "$folder/joblog" "$@" \
    sim run "$file" --runs "$folder" --shard "{}/$shards"

#!/usr/bin/env bash
# Run a search on a Slurm cluster: an array job of WORKERS tasks whose workers share one database.
#
#   WORKERS=32 scripts/optimize_slurm.sh --storage postgresql://me@db.cluster/optuna algo=tqc env=FetchPush-v4 --n-trials 500
#
# All arguments go to `rlher optimize`. PARTITION, TIME and CPUS are Slurm's. Put the password in ~/.pgpass or PGPASSWORD.
# A task that is killed or runs out of time loses at most its running trial, which another task runs again. Submit the
# script again to resume the study.
set -euo pipefail

if [[ " $* " != *" --storage"* ]]; then
    echo "optimize_slurm.sh: the workers need a shared database; give --storage postgresql://..." >&2
    exit 2
fi

mkdir -p logs
sbatch --job-name=rlher --array="1-${WORKERS:-8}" --cpus-per-task="${CPUS:-1}" --time="${TIME:-08:00:00}" \
    ${PARTITION:+--partition="$PARTITION"} --output=logs/slurm-%A_%a.out --signal=TERM@60 <<JOB
#!/usr/bin/env bash
exec rlher optimize$(printf ' %q' "$@")
JOB

#!/usr/bin/env bash
# A search on a Slurm cluster: plain workers that join one database, an array job of WORKERS tasks.
#
#   WORKERS=32 scripts/optimize_slurm.sh --storage postgresql://me@db.cluster/optuna algo=tqc env=FetchPush-v4 --n-trials 500
#
# Everything after the script's name goes to `rlher optimize`. PARTITION, TIME and CPUS are Slurm's; the password belongs
# into ~/.pgpass or PGPASSWORD. A task that is killed or runs out of time loses at most its trial, which another one runs
# again; submit the script again and the study goes on.
set -euo pipefail

if [[ " $* " != *" --storage"* ]]; then
    echo "optimize_slurm.sh: --storage postgresql://... is what the workers share; give one." >&2
    exit 2
fi

mkdir -p logs
sbatch --job-name=rlher --array="1-${WORKERS:-8}" --cpus-per-task="${CPUS:-1}" --time="${TIME:-08:00:00}" \
    ${PARTITION:+--partition="$PARTITION"} --output=logs/slurm-%A_%a.out --signal=TERM@60 <<JOB
#!/usr/bin/env bash
exec rlher optimize$(printf ' %q' "$@")
JOB

#!/usr/bin/env bash
# Train the runs of docs/benchmarks.md, two at a time, with three seeds each by default; copy their small files to
# logs/benchmark/<name>/seed<N>/.
#   scripts/reproduce_benchmark.sh [folder] [jobs] [pattern of names]
# Each name is a sweep (rlher train -m), so call it again with the same folder to continue.
set -euo pipefail
cd "$(dirname "$0")/.."
into=${1:-logs/benchmark}
jobs=${2:-2}
pattern=${3:-.}
logs=logs/reproduce/$(basename "$into")
mkdir -p "$logs"
export OMP_NUM_THREADS=1 RLHER_BENCHMARK_LOGS=$logs

# name | overrides | seeds, if not 0,1,2. Kept runs with env.fall_height=null were trained before there was the key, and those that
# cloned before the recipe had a schedule.
cat > "$logs/todo" <<'RUNS'
bits15-dqn|algo=dqn env=BitFlipping-v0
bits30-dqn|algo=dqn env=BitFlipping-v0 env.kwargs.n_bits=30 total_timesteps=35000 eval.freq=2500
bits50-dqn|algo=dqn env=BitFlipping-v0 recipe=dqn-BitFlipping-v0-50bits
push-minutes-ddpg|algo=ddpg env=FetchPush-v4 env.fall_height=null|0,1,2,3,4
push-relay-ddpg|algo=ddpg env=FetchPush-v4 recipe=ddpg-FetchPush-v4-steps|0,1,2,3,4,5,6,7,8,9
push-td3|algo=td3 env=FetchPush-v4 env.fall_height=null
slide-clone-td3|algo=td3 env=FetchSlide-v4 recipe=td3-FetchSlide-v4-demos demos=DEMOS/slide-v0
slide-mix-td3|algo=td3 env=FetchSlide-v4 env.fall_height=null
pickplace-relay-ddpg|algo=ddpg env=FetchPickAndPlace-v4|10,11,12,13,14,15,16,17,18,19
pickplace-demos-ddpg|algo=ddpg env=FetchPickAndPlace-v4 recipe=ddpg-FetchPickAndPlace-v4-demos demos=DEMOS/pick100-v0 env.fall_height=null
pickplace-demos-filter-ddpg|algo=ddpg env=FetchPickAndPlace-v4 recipe=ddpg-FetchPickAndPlace-v4-demos demos=DEMOS/pick100-v0 demos.q_filter=true env.fall_height=null
pickplace-clone50-ddpg|algo=ddpg env=FetchPickAndPlace-v4 demos=DEMOS/pick50-v0 total_timesteps=0 demos.pretrain_updates=20000 algo.learning_rate_schedule=constant
pickplace-clone200-ddpg|algo=ddpg env=FetchPickAndPlace-v4 demos=DEMOS/pick200-v0 total_timesteps=0 demos.pretrain_updates=20000 algo.learning_rate_schedule=constant
umaze-td3|algo=td3 env=PointMaze_UMaze-v3|0,1,2,3,4
medium-td3|algo=td3 env=PointMaze_Medium-v3
panda-reach-ddpg|algo=ddpg env=PandaReach-v3
panda-push-relay-ddpg|algo=ddpg env=PandaPush-v3
panda-pickplace-relay-ddpg|algo=ddpg env=PandaPickAndPlace-v3
panda-slide-ddpg|algo=ddpg env=PandaSlide-v3 algo.net_arch=[256,256,256] algo.action_noise=0.2 algo.random_action=0.2 algo.action_l2=0.1 n_envs=4 algo.gradient_steps=1 total_timesteps=100000 eval.freq=10000|0,1
hand-sac|algo=sac env=HandReach-v3
reach-ddpg|algo=ddpg env=FetchReach-v4
reach-sac|algo=sac env=FetchReach-v4
reach-td3|algo=td3 env=FetchReach-v4
reach-tqc|algo=tqc env=FetchReach-v4
parking-classic-sac|algo=sac env=parking-classic|0,1,2,3,4,5,6,7
parking-minutes-tqc|algo=tqc env=parking-v0|0,1,2,3,4,5,6,7
parking-tqc|algo=tqc env=parking-v0 recipe=tqc-parking-v0-steps|0,1,2,3,4,5,6,7
bits15-dqn-sb3|algo=dqn env=BitFlipping-v0 her=sb3
parking-classic-sac-sb3|algo=sac env=parking-classic her=sb3|0,1,2,3,4,5,6,7
parking-tqc-sb3|algo=tqc env=parking-v0 recipe=tqc-parking-v0-steps her=sb3|0,1,2,3,4,5,6,7
RUNS
sed -i "s|DEMOS|$logs/demos|" "$logs/todo"

# Collect the demonstrations that the chosen names learn from.
for episodes in $(grep -E -- "$pattern" "$logs/todo" | sed -n 's|.*/demos/pick\([0-9]*\)-v0.*|\1|p' | sort -u); do
    [ -d "$logs/demos/pick$episodes-v0" ] || .venv/bin/rlher collect env=FetchPickAndPlace-v4 \
        --episodes "$episodes" --output "$logs/demos/pick$episodes-v0"
done

if grep -E -- "$pattern" "$logs/todo" | grep -q slide-v0 && [ ! -d "$logs/demos/slide-v0" ]; then
    PYTHONPATH=scripts .venv/bin/rlher collect env=FetchSlide-v4 controller=slide_controller:Slide \
        --episodes 16000 --successes-only --output "$logs/demos/slide-v0"
fi

# Train a name's seeds that were not kept before, and copy the files of the finished ones, except the large ones.
sweep() {
    name=$1 overrides=$2 seeds=$3 kept=$4/$1 missing=
    for seed in ${seeds//,/ }; do
        grep -qs '"status": "finished"' "$kept/seed$seed/result.json" || missing+=${missing:+,}$seed
    done
    if [ -z "$missing" ]; then
        echo "$name: finished before"
        return
    fi
    runs=$RLHER_BENCHMARK_LOGS/$name
    # shellcheck disable=SC2086 # the overrides are words
    .venv/bin/rlher train -m $overrides seed="$missing" --workers "$WORKERS" tensorboard=false --logs "$runs" \
        > "$runs.log" 2>&1 || echo "$name: not finished, see $runs.log"
    for result in $(grep -ls '"status": "finished"' "$runs"/*/*/result.json); do
        run=${result%/*} seed=$(sed -n 's/^seed: //p' "${result%/*}/config.yaml")
        mkdir -p "$kept/seed$seed"
        cp "$run"/{config.yaml,command.txt,meta.json,evaluations.csv,result.json} "$kept/seed$seed/"
        echo "$name seed $seed: $(tail -n 1 "$run/evaluations.csv")"
    done
}
export -f sweep

# Names are trained side by side first, then the seeds of a name: a name's last seed leaves no core without work.
names=$(grep -cE -- "$pattern" "$logs/todo") || { echo "no name matches $pattern"; exit 2; }
sweeps=$((names < jobs ? names : jobs))
export WORKERS=$((jobs / sweeps))
while IFS='|' read -r name overrides seeds; do
    printf '%s\0%s\0%s\0%s\0' "$name" "$overrides" "${seeds:-0,1,2}" "$into"
done < <(grep -E -- "$pattern" "$logs/todo") | xargs -0 -n 4 -P "$sweeps" bash -c 'sweep "$@"' _
.venv/bin/rlher compare "$into"/*

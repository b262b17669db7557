#!/usr/bin/env bash
# Build the wheel and the source distribution, and use the wheel as a new user would: in an empty environment and folder.
#
#     scripts/release_check.sh
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf dist
.venv/bin/python -m build --quiet
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check twine
"$work/venv/bin/twine" check --strict dist/*
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
cd "$work"
PATH=$work/venv/bin:$PATH
rlher train algo=ddpg env=FetchReach-v4
rlher evaluate --json | python -c 'import json, sys; assert json.load(sys.stdin)["success_rate"] >= 0.9'
rlher evaluate --agent td3-PointMaze_UMaze-v3 --episodes 5
rlher compare
rlher plot --output curves.png
echo "the release is ready: dist/"

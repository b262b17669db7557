#!/bin/sh
# Installs rlher into a new virtual environment, with what it needs of the system if root runs this:
#     scripts/docker_install.sh <folder>
set -eu
folder=${1:?"usage: docker_install.sh <folder>"}
source=$(cd "$(dirname "$0")/.." && pwd)
packages="libegl1 libgl1-mesa-dri g++"  # MuJoCo draws with the first two, torch.compile calls the last

# shellcheck disable=SC2086
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg -s $packages >/dev/null 2>&1; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
    rm -rf /var/lib/apt/lists/*
fi
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$source/constraints.txt" "$source"
"$folder/bin/rlher" --version

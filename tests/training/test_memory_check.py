"""The memory that a replay buffer will take, told beforehand; one that will not fit is refused with one that does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlher.her.replay_buffer import HerReplayBuffer
from rlher.training import memory_check
from tests.conftest import TINY

GB = 10**9
BITS = ("algo=dqn", "env=BitFlipping-v0", "~tuned", *TINY)


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def group(folder: str, limit: object, used: int, files: int = 0) -> dict[str, str]:
    stat = f"anon 1\nactive_file {files // 2}\ninactive_file {files // 2}\n"
    texts = {"memory.max": f"{limit}\n", "memory.current": f"{used}\n", "memory.stat": stat}
    return {f"sys/fs/cgroup/{folder}{name}": text for name, text in texts.items()}


def old_group(folder: str, limit: int, used: int) -> dict[str, str]:
    texts = {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": used, "memory.stat": "total_inactive_file 0"}
    return {f"sys/fs/cgroup/memory/{folder}{name}": f"{text}\n" for name, text in texts.items()}


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, 8_192_000_000),
        ({"proc/self/cgroup": "0::/job\n", **group("job/", "max", GB)}, 8_192_000_000),
        ({"proc/self/cgroup": "0::/a/b\n", **group("a/", 4 * GB, 3 * GB), **group("a/b/", 9 * GB, GB)}, GB),
        ({"proc/self/cgroup": "0::/\n", **group("", 4 * GB, 3 * GB, files=2 * GB)}, 3 * GB),
        ({"proc/self/cgroup": "0::/\n", **group("", GB, 2 * GB)}, 0),
        ({"proc/self/cgroup": "3:cpu:/\n4:memory:/j\n0::/\n", **old_group("j/", 2 * GB, GB)}, GB),
        ({"proc/self/cgroup": "4:memory:/of/the/host\n", **old_group("", 3 * GB, GB)}, 2 * GB),
    ],
)
def test_the_least_of_the_machine_and_its_groups_is_left(tmp_path, files, left):
    assert available(machine(tmp_path, files)) == left


def test_where_nothing_is_known_nothing_is_refused(tmp_path, monkeypatch, rlher):
    assert available(tmp_path) is None
    monkeypatch.setattr(memory_check, "available", lambda: None)
    done = rlher("train", *BITS, "total_timesteps=60")
    assert done.code == 0, done.err
    assert re.search(r"up to 60 transitions, \d+ kB\n", done.err)


@pytest.mark.parametrize("option", ["her.priority=uniform", "her.priority=energy", "n_envs=2"])
def test_what_is_said_is_what_it_takes(rlher, monkeypatch, option):
    from rlher.training import trainer

    models = []
    build = trainer.build_model
    monkeypatch.setattr(trainer, "build_model", lambda *arguments: models.append(build(*arguments)) or models[-1])
    done = rlher("train", *BITS, option, "env.n_bits=25", "vec_env=dummy", "total_timesteps=1000", "eval.freq=1000")
    assert done.code == 0, done.err
    said = float(re.search(r"up to 1,000 transitions, (\d+) kB", done.err)[1]) * 1000
    buffer: HerReplayBuffer = models[0].replay_buffer
    taken = buffer.nbytes + (1000 * memory_check.RANKED if "energy" in option else 0)
    assert taken <= 1.02 * said, "a little more where random play ends episodes early"
    assert said <= 1.1 * taken


def test_a_buffer_that_will_not_fit_is_refused_with_one_that_does(rlher, monkeypatch):
    monkeypatch.setattr(memory_check, "available", lambda: memory_check.SPARED + 10**6)
    refused = rlher("train", *BITS, "total_timesteps=100_000", "eval.freq=100_000")
    assert refused.code == 2
    told = re.search(r"will take (\d+) MB for 100,000 .*algo.buffer_size=(\d+) fits", refused.err)
    assert 10 < int(told[1]) < 30
    assert not Path("logs").exists()
    done = rlher("train", *BITS, "total_timesteps=100_000", f"algo.buffer_size={told[2]}", "dry_run=true")
    assert done.code == 0, done.err
    more = rlher("train", *BITS, "total_timesteps=100_000", f"algo.buffer_size={int(told[2]) * 11 // 10}")
    assert more.code == 2
    assert rlher("train", *BITS, "total_timesteps=60").code == 0, "a short run fills little of its buffer"


SHORT_OF_SPACE = """
import resource, sys
from pathlib import Path
import rlher.training.trainer
from rlher.cli.main import main
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 2 * 10**9,) * 2)
sys.exit(main(sys.argv[1:]))
"""


def test_where_address_space_is_short_it_says_how_much_there_is_room_for(tmp_path):
    def run(*words: str) -> subprocess.CompletedProcess:
        line = [sys.executable, "-c", SHORT_OF_SPACE, "train", *BITS, "threads=1", "dry_run=true", *words]
        return subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)

    refused = run("algo.buffer_size=50_000_000")
    assert refused.returncode == 2, refused.stderr
    told = re.search(r"no address space .*algo.buffer_size=(\d+) fits", refused.stderr)
    assert int(told[1]) > 10**6
    assert "Traceback" not in refused.stderr
    done = run(f"algo.buffer_size={told[1]}")
    assert done.returncode == 0, done.stderr

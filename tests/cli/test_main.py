"""What a person types, and what they are told."""

import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from rlher.cli import overrides
from rlher.cli.main import VERBS
from rlher.config import override_syntax

BAD = [
    # words, what the sentence must say
    (("trian",), "did you mean 'train'"),
    (("train", "algo=tqcc"), "did you mean 'tqc'"),
    (("train", "env=parkin-v0"), "parking-v0"),
    (("train", "her=fianl"), "did you mean 'final'"),
    (("train", "algo.lr=3"), "algo.learning_rate"),
    (("train", "n_sampled_goal=3"), "her.n_sampled_goal"),
    (("train", "algo=td3", "algo.ent_coef=1"), "another algorithm"),
    (("train", "algo.learning_rate=abc"), "algo.learning_rate is a number"),
    (("train", "algo.learning_rate=-1"), "at least 0"),
    (("train", "algo.learning_rate=nan"), "not a finite number"),
    (("train", "algo.gamma=1.5"), "at most 1"),
    (("train", "her.n_sampled_goal=-1"), "at least 0"),
    (("train", "her.goal_selection_strategy=fianl"), "did you mean 'final'"),
    (("train", "her.relabel_done=maybe"), "auto"),
    (("train", "n_envs=0"), "at least 1"),
    (("train", "total_timesteps=0"), "at least 1"),
    (("train", "seed=1,2"), "-m"),
    (("train", "total_timesteps"), "neither a flag nor key=value"),
    (("train", "--sed", "3"), "did you mean '--seed'"),
    (("train", "--seed"), "needs a value"),
    (("train", "tuned=nowhere.yaml"), "nowhere.yaml"),
    (("train", "tuned=tqc-parkin-v0"), "did you mean 'tqc-parking-v0'"),
    (("train", "--recipe", "nowhere"), "there is no recipe 'nowhere'"),
    (("train", "env.modules=mine"), "env.modules=[mine]"),
    (("train", "seed=abc"), "seed is a whole number"),
    (("train", "dry_run=perhaps"), "dry_run is true or false"),
    (("train", "seed"), "did you mean --seed or seed=...?"),
    (("list", "foo"), "Lists: algos, envs, strategies"),
    (("train", "init_from=nowhere"), "nowhere"),
    (("train", "algo.target_q_bounds=7"), "algo.target_q_bounds"),
    (("train", "algo.target_q_bounds=[3,1]"), "below"),
    (("train", "algo=sac", "algo.ent_coef=much"), "algo.ent_coef"),
    (("train", "algo.kwargs.frobnicate=1"), "frobnicate"),
    (("train", "algo=sac", "+algo.kwargs.policy_kwargs={net_arch: {pi: [1]}}"), "sac cannot be built"),
    (("train", "+algo.kwargs.buffer_size=1_000_000_000_000"), "cannot be built"),
    (("train", "algo=dqn", "env=parking-v0"), "sac, td3, ddpg, tqc, crossq"),
    (("train", "algo=sac", "env=BitFlipping-v0"), "dqn, qrdqn"),
    (("train", "device=gpu9", "env=BitFlipping-v0", "algo=dqn"), "gpu9"),
    (("train", "algo=sac", "env=BitFlipping-v0", "env.continuous=true", "algo.ent_coef=-1"), "at least 0"),
    (("train", "algo=sac", "env=BitFlipping-v0", "env.continuous=true", "algo.ent_coef=nan"), "finite"),
    (("train", "algo.net_arch=[0]"), "at least 1"),
    (("train", "normalize.clip=0"), "at least 0.1"),
    (("train", "algo.target_q_bounds=[.nan,0]"), "algo.target_q_bounds"),
    (("train", "env.reward_range=[0]"), "pair"),
    (("train", "algo.kwargs.n_steps=3"), "her.n_steps"),
    (("train", "+preset=0"), "this makes no config"),
    (("train", "algo.net_arch.a.b=3"), "this makes no config"),
    (("train", "device=cuda"), "no CUDA"),
    (("train", "+algo.lr=5"), "algo.learning_rate"),
    (("train", "+foo=1"), "no key 'foo'"),
    (("train", "algo=null"), "needs a name"),
    (("train", "=3"), "neither a flag nor key=value"),
    (("train", "-m", "seed=0,1", "--cfg", "job"), "leave -m"),
    (("train", "-p", "algo"), "--cfg job"),
    (("train", "--no-seed", "3"), "no flag --no-seed"),
    (("evaluate", "nowhere"), "no run folder nowhere"),
    (("enjoy",), "no run under logs"),
    (("enjoy", "--video", "film.avi"), ".mp4"),
]


@pytest.mark.parametrize(("words", "told"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_a_mistake_gets_a_sentence_and_exit_code_2(rlher, tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    done = rlher(*words)
    assert done.code == 2
    assert told in done.err
    assert done.err.startswith("rlher: ")
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 2
    assert not list(tmp_path.rglob("config.yaml")), "a run folder was made for a run that never began"


def test_flags_and_overrides_in_any_order() -> None:
    one = overrides.to_hydra("train", ["algo=sac", "-m", "--n-envs", "2", "seed=0,1", "--no-progress", "--device=cpu"])
    assert one == ["-m", "algo=sac", "n_envs=2", "seed=0,1", "progress=false", "device=cpu"]
    assert overrides.to_hydra("evaluate", ["logs/a b", "--episodes", "3"]) == ["run='logs/a b'", "episodes=3"]
    assert overrides.to_hydra("train", ["env=Some-v9"]) == ["env=any", "env.id=Some-v9"]
    assert overrides.to_hydra("train", ["--config-dir=conf", "x=1"]) == ["--config-dir", "conf", "x=1"]
    printed = overrides.to_hydra("train", ["--cfg", "job", "x=1", "-p", "algo"])
    assert printed == ["--cfg", "job", "-p", "algo", "--resolve", "x=1"]


TRICKY = ["plain", "a=b", "it's", "postgresql://u:p@h/d?x=1", "back\\slash", "end\\", "\\'", "[x]", "a,b", ""]


BILLIONS = "a: &a [1, 1, 1, 1]\n" + "\n".join(
    f"{to}: &{to} [*{of}, *{of}, *{of}, *{of}]" for of, to in pairwise("abcdefghijklm")
)


@pytest.mark.parametrize(
    "text", ["id: [", "id: \x01", "id: !!python/object/apply:os.system [exit]", "[" * 9000, BILLIONS]
)
def test_a_config_file_of_ones_own_that_cannot_be_read_is_told(rlher, tmp_path: Path, text: str) -> None:
    (tmp_path / "conf/env").mkdir(parents=True)
    (tmp_path / "conf/env/mine.yaml").write_text(text)
    done = rlher("train", "env=mine", "--config-dir", "conf", "--cfg", "job")
    assert done.code == 2
    assert done.err.startswith("rlher: cannot read conf/env/mine.yaml: ")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("value", TRICKY)
def test_quoted_values_survive_hydras_grammar(value: str) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parsed = OverridesParser.create().parse_override(f"key={override_syntax.quote(value)}")
    assert parsed.value() == value


def test_a_folder_may_have_an_equals_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=0.1").mkdir()
    assert overrides.to_hydra("plot", ["lr=0.1", "x=wall"]) == ["runs=['lr=0.1']", "x=wall"]


def test_cfg_prints_the_resolved_config(rlher) -> None:
    config = yaml.safe_load(rlher("train", "algo=sac", "env=FetchReach-v4", "algo.gamma=0.9", "--cfg", "job").out)
    assert config["algo"]["name"] == "sac"
    assert config["algo"]["gamma"] == 0.9
    assert config["env"]["id"] == "FetchReach-v4"


def test_precedence_algorithm_recipe_command_line(rlher) -> None:
    def batch(*words: str) -> dict:
        return yaml.safe_load(rlher("train", "algo=dqn", "env=BitFlipping-v0", *words, "--cfg", "job").out)

    assert batch()["total_timesteps"] != batch("~tuned")["total_timesteps"]
    assert batch("total_timesteps=7")["total_timesteps"] == 7
    assert batch("her=final")["her"]["goal_selection_strategy"] == "final"
    assert batch("her=off")["her"]["n_sampled_goal"] == 0


def test_what_is_typed_wins_over_a_recipe_file(rlher, tmp_path: Path) -> None:
    recipe = tmp_path / "best.yaml"
    recipe.write_text(
        "total_timesteps: 123\nalgo: {gamma: 0.9, kwargs: {verbose: 1}}\nher: {goal_selection_strategy: episode}\n"
    )
    pair = ("algo=dqn", "env=BitFlipping-v0")
    config = yaml.safe_load(rlher("train", *pair, "algo.gamma=0.8", "her=final", f"tuned={recipe}", "--cfg", "job").out)
    assert (config["algo"]["gamma"], config["total_timesteps"]) == (0.8, 123), "wherever the recipe stands"
    assert config["her"]["goal_selection_strategy"] == "final"
    assert config["algo"]["kwargs"] == {"verbose": 1}
    assert config["env"]["max_episode_steps"] == 15, "resolved"


def test_a_recipe_file_is_used_as_it_is(rlher, tmp_path: Path) -> None:
    recipe = tmp_path / "best.yaml"
    recipe.write_text(
        "# @package _global_\ntotal_timesteps: 123\nalgo: {net_arch: [8, 8], gamma: 0.9}\nher: {n_sampled_goal: 2}\n"
    )
    words = ("train", "algo=dqn", "env=BitFlipping-v0", f"tuned={recipe}", "algo.gamma=0.8", "--cfg", "job")
    config = yaml.safe_load(rlher(*words).out)
    assert (config["total_timesteps"], config["her"]["n_sampled_goal"]) == (123, 2)
    assert config["algo"]["net_arch"] == [8, 8]
    assert config["algo"]["gamma"] == 0.8, "the command line wins over the recipe"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_helps(rlher, verb: str) -> None:
    done = rlher(verb, "--help")
    assert done.code == 0
    assert "usage: rlher" in done.out


def test_lists(rlher) -> None:
    found = json.loads(rlher("list", "--json").out)
    assert {"dqn", "tqc", "crossq"} <= {row["algo"] for row in found["algos"]}
    assert {"parking-v0", "FetchReach-v4"} <= {row["env"] for row in found["envs"]}
    assert {"future", "final", "episode", "random"} <= {row["strategy"] for row in found["strategies"]}
    assert all(row["description"] for rows in found.values() for row in rows)
    assert rlher("list", "nonsense").code == 2


LIGHT = ["--help", "train --help", "optimize --help", "enjoy --help", "list", "train --cfg job", "optimize --cfg job"]


@pytest.mark.parametrize("words", LIGHT)
def test_help_and_lists_do_not_import_torch(words: str) -> None:
    code = (
        "import sys; from rlher.cli.main import main\n"
        f"try: main({words.split()!r})\nexcept SystemExit: pass\n"
        "sys.exit(bool({'torch', 'stable_baselines3', 'optuna'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_help_takes_at_most_a_quarter_of_importing_sb3() -> None:
    def seconds(*command: str) -> float:
        times = []
        for _ in range(2):
            start = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            times.append(time.perf_counter() - start)
        return min(times)

    budget = seconds("-c", "import stable_baselines3") / 4
    assert seconds("-m", "rlher.cli.main", "--help") <= budget
    assert seconds("-m", "rlher.cli.main", "train", "--help") <= budget


COMPLETIONS = [
    ("rlher tr", {"train"}),
    ("rlher ", set(VERBS)),
    ("rlher train algo=s", {"algo=sac"}),
    ("rlher train her=f", {"her=future", "her=final"}),
    ("rlher train env=Fetch", {"env=FetchReach-v4", "env=FetchPush-v4"}),
    ("rlher train algo=sac her.n_s", {"her.n_sampled_goal="}),
]


@pytest.mark.parametrize(("line", "expected"), COMPLETIONS, ids=[line for line, _ in COMPLETIONS])
def test_tab_completion_in_bash(line: str, expected: set[str]) -> None:
    """Through the script that `rlher -sc install=bash` prints, in a real bash."""
    script = f"""
        eval "$(rlher -sc install=bash)"
        COMP_LINE={line!r}; COMP_POINT={len(line)}; COMP_WORDS=($COMP_LINE); COMP_CWORD={line.count(" ")}
        hydra_bash_completion; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment)
    assert expected <= set(done.stdout.split()), done.stdout + done.stderr


def test_steps_may_be_written_as_powers_of_ten() -> None:
    assert overrides.to_hydra("train", ["total_timesteps=1e5", "--n-envs", "2e0"]) == [
        "total_timesteps=100000",
        "n_envs=2",
    ]
    assert overrides.to_hydra("train", ["algo.learning_rate=1e+5"]) == ["algo.learning_rate=1e+5"]


def test_help_is_of_the_algorithm_and_environment_typed(rlher) -> None:
    told = rlher("train", "--help", "algo=td3", "env=BitFlipping-v0").out
    assert "algo.policy_delay " in told
    assert "env.n_bits " in told
    assert "(uniform; one of uniform, energy" in told
    assert "algo.action_noise" in told
    assert "(0.2)" in next(line for line in told.splitlines() if "algo.action_noise" in line), "as its YAML has it"
    assert "algo.policy_delay" not in rlher("train", "--help", "algo=dqn").out


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("rlher train --see", ["--seed"]),
        ("rlher evaluate --ep", ["--episodes"]),
        ("rlher evaluate lo", ["logs/"]),
        ("rlher ev", ["evaluate"]),
    ],
)
def test_completion_of_flags_and_folders(rlher, monkeypatch: pytest.MonkeyPatch, line: str, known: list[str]) -> None:
    Path("logs").mkdir()
    monkeypatch.setenv("COMP_LINE", line)
    assert rlher("-sc", "query=bash").out.split() == known

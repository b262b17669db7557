"""The words of a command line as values by key."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from rlher.cli import command_line, main
from rlher.config.overrides import SweepValues
from rlher.core.errors import UserError


def overrides_of(name: str, words: list[str]) -> dict[str, Any]:
    return command_line.parse(name, words).overrides


def test_flags_and_overrides_in_any_order() -> None:
    words = ["algo=sac", "-m", "--n-envs", "2", "seed=0,1", "--no-progress", "--device=cpu"]
    overrides = {"algo": "sac", "seed": SweepValues([0, 1]), "n_envs": 2, "progress": False, "device": "cpu"}
    assert command_line.parse("train", words)[1:] == (overrides, True, False)
    assert command_line.parse("train", ["--cfg", "job", "seed=1"])[1:] == ({"seed": 1}, False, True)
    assert overrides_of("optimize", ["--space", "x.yaml"]) == {"space": "x.yaml"}
    assert overrides_of("enjoy", ["--no-deterministic"]) == {"deterministic": False}
    assert overrides_of("evaluate", ["2024_11", "--episodes", "3"]) == {"run": "2024_11", "episodes": 3}
    assert overrides_of("plot", ["--by", "her,seed", "a b"]) == {"runs": "a b", "by": ["her", "seed"]}
    assert overrides_of("plot", ["--figsize", "[3.4,2.6]"]) == {"figsize": [3.4, 2.6]}


@pytest.mark.parametrize(
    "line",
    [
        *("check sac", "train sac", "train seed=0,1", "list algos envs"),
        *("train --resume . ..", "train . .. --resume", "train resume=a --cfg job"),
        "train -m seed=range(3,3)",
    ],
)
def test_unknown_words_and_several_values_are_refused(line: str) -> None:
    with pytest.raises(UserError):
        main.dispatch(line.split())


def test_a_folder_may_have_an_equals_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=0.1").mkdir()
    assert overrides_of("plot", ["lr=0.1", "x=wall"]) == {"x": "wall", "runs": "lr=0.1"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--resume"], {}),
        (["--resume", "--json"], {"json": True}),
        (["--resume", "more_timesteps=30"], {"more_timesteps": 30}),
        (["--resume", "logs/a b", "seed=1"], {"seed": 1, "run": "logs/a b"}),
        (["--resume", "seed=1", "run"], {"seed": 1, "run": "run"}),
        (["--resume=run"], {"run": "run"}),
        (["seed=1", "run", "--resume"], {"seed": 1, "run": "run"}),
    ],
)
def test_resume_takes_a_run_or_none(words: list, expected: dict, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    monkeypatch.setattr(main, "run_command", lambda line: (line.command.name, line.overrides))
    assert main.dispatch(["train", *words]) == ("resume", expected)


def test_positional_words_are_recorded_without_their_key() -> None:
    for words in (["logs/a", "logs/b"], ["runs=[logs/a,logs/b]"]):
        assert str(command_line.parse("report", [*words, "--title", "A"])) == "rlher report logs/a logs/b title=A"
    assert str(command_line.parse("export", ["run='3'"])) == "rlher export 3"


def test_a_flag_sweeps_as_its_word_does() -> None:
    for words in (["-m", "--recipe", "a,b"], ["-m", "recipe=a,b"]):
        assert command_line.parse("train", words).overrides == {"recipe": SweepValues(["a", "b"])}


def test_a_word_may_be_longer_than_a_file_name() -> None:
    keys = ["her.n_steps"] * 60
    assert overrides_of("plot", [f"by=[{','.join(keys)}]"]) == {"by": keys}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("title=a, b", "a, b"),
        ("title='a, b'", "a, b"),
        ("by=algo, seed", ["algo", "seed"]),
        ("by='algo','seed'", ["algo", "seed"]),
        ("by= [algo, seed]", ["algo", "seed"]),
        ("figsize= [3, 4]", [3, 4]),
        ("output='a (1).png',b.pdf", ["a (1).png", "b.pdf"]),
        ("figsize=3,4", [3, 4]),
        ("figsize=null", None),
    ],
)
def test_texts_need_no_quotes_and_lists_no_brackets(word: str, value: object) -> None:
    key, _, text = word.partition("=")
    for words in ([word], [f"--{key}", text]):
        line = command_line.parse("plot", words)
        assert line.overrides == {key: value}
        assert overrides_of("plot", shlex.split(str(line))[2:]) == {key: value}, "as it is recorded"


def test_a_list_of_mappings_needs_no_brackets() -> None:
    words = ["callbacks={a:B: {x: 1}},{c:D: {y: 2}}", "env.wrappers={a:B: {x: 1}}, c:D"]
    values = {"callbacks": [{"a:B": {"x": 1}}, {"c:D": {"y": 2}}], "env.wrappers": [{"a:B": {"x": 1}}, "c:D"]}
    assert overrides_of("train", words) == values


def test_entries_of_a_list_may_be_null_or_mappings() -> None:
    words = ["env.reward_range=null,0", "env.wrappers=a:B,{c:D: {x: 1, y: 2}}", "algo.net_arch={pi: [8], qf: [9]}"]
    values = {"env.reward_range": [None, 0], "env.wrappers": ["a:B", {"c:D": {"x": 1, "y": 2}}]}
    assert overrides_of("train", words) == {**values, "algo.net_arch": {"pi": [8], "qf": [9]}}

"""Tab completion."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMPLETIONS = [
    ("rlher tr", {"train"}),
    ("rlher train algo=s", {"algo=sac"}),
    ("rlher train --see", {"--seed"}),
    ("rlher evaluate lo", {"logs/"}),
    ("rlher train algo=sac her.n_s", {"her.n_sampled_goal="}),
    ("rlher train algo=dqn algo.ta", {"algo.tau=", "algo.target_update_interval="}),
    ("rlher train h", {"her.", "her="}),
    ("rlher plot x=w", {"x=wall"}),
    ("rlher list al", {"algos"}),
]


def complete_in_bash(line: str, folder: Path) -> str:
    """Return the completions of the last word of a line, a line each.

    Through the script that `rlher -sc install=bash` prints, in a real bash.
    """
    script = f"""
        eval "$(rlher -sc install=bash)"
        COMP_LINE={line!r}; COMP_POINT={len(line)}; COMP_WORDS=($COMP_LINE); COMP_CWORD={line.count(" ")}
        _rlher rlher "${{COMP_WORDS[COMP_CWORD]}}"; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=folder)
    return done.stdout


@pytest.mark.parametrize(("line", "expected"), COMPLETIONS, ids=[line for line, _ in COMPLETIONS])
def test_words_and_their_completions(rlher, monkeypatch: pytest.MonkeyPatch, line: str, expected: set[str]) -> None:
    Path("logs").mkdir()
    monkeypatch.setenv("COMP_LINE", line)
    assert expected <= set(rlher("-sc", "query=bash").out.split())


@pytest.mark.parametrize("shell", ["fish", "zsh"])
def test_other_shells_accept_the_script(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    rlher = Path(sys.executable).with_name("rlher")
    load = {
        "fish": f"{rlher} -sc install=fish | source",
        "zsh": f'autoload -U compinit && compinit -u && eval "$({rlher} -sc install=zsh)"',
    }
    ask = {"fish": "complete -C 'rlher train algo=s'", "zsh": "print ${_comps[rlher]}"}
    done = subprocess.run(
        [shell, "-c", f"{load[shell]}; {ask[shell]}"],
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{rlher.parent}:{os.environ['PATH']}"},
    )
    assert {"fish": "algo=sac", "zsh": "_rlher"}[shell] in done.stdout, done.stderr


def test_names_of_folders_are_not_executed(tmp_path: Path) -> None:
    (tmp_path / "run$(touch${IFS}pwned)").mkdir()
    assert complete_in_bash("rlher evaluate run", tmp_path) == "\n", "left to readline, which quotes names"
    for name in ("$(touch pwned)", "`touch pwned`", "plain", "$(touch${IFS}pwned)"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    assert "logs/plain" in complete_in_bash("rlher train init_from=./logs/", tmp_path)
    assert not (tmp_path / "pwned").exists()

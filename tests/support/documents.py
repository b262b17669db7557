"""The documentation as tests read it: its files, their code blocks and the commands in them."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(path.relative_to(ROOT)) for path in FILES]


def blocks(name: str, *languages: str) -> list[str]:
    """Return the code blocks of a file in these languages."""
    found = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / name).read_text(), flags=re.DOTALL | re.MULTILINE)
    return [code for language, code in found if language in languages]


def shortened(code: str) -> str:
    """Return a block of Python whose training is short."""
    short = code.replace("learn(5_000)", "learn(120)").replace("compile=True", "compile=False")
    short = short.replace("episodes=20", "episodes=2").replace("range(20)", "range(2)")
    tiny = 'total_timesteps=100, threads=1, **{"eval.episodes": 1, "eval.final_episodes": 2}'
    short = short.replace("total_timesteps=2_000", tiny).replace('eval.freq": 500', 'eval.freq": 50')
    return re.sub(r"(total_timesteps=100(?!.*eval\.freq).*?)\*\*{", r'\1**{"eval.freq": 50, ', short)


def prose(name: str) -> str:
    """Return a file without its code blocks."""
    return re.sub(r"^```.*?^```", "", (ROOT / name).read_text(), flags=re.DOTALL | re.MULTILINE)


def commands(name: str) -> list[list[str]]:
    """Return the arguments of every `rlher` command in a file's shell blocks.

    Variables in front of a command, comments, pipes and words that contain "…" are left out.
    """
    lines = "".join(blocks(name, "sh")).replace("\\\n", " ").splitlines()
    typed = "".join(blocks(name, "console")).replace("\\\n", " ").splitlines()
    lines += [line.removeprefix("$ ") for line in typed if line.startswith("$ ")]
    found = []
    for line in lines:
        words = shlex.split(line.split(" | ")[0], comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        if words and words[0] == "rlher":
            found.append([word for word in words[1:] if "…" not in word])
    return found

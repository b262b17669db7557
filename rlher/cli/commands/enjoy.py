"""Watch a run's agent, a controller or demonstrations, in a window or as a video."""

from rlher.config.commands import EnjoyConfig


def run(config: EnjoyConfig, command_line: str) -> int:
    """Play episodes, show or record them, and return the exit code."""
    from rlher.demonstrations.enjoy import enjoy

    return enjoy(config)

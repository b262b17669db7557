"""Write curves, tables, clips and versions of runs as one HTML page."""

from rlher.config.commands import ReportConfig


def run(config: ReportConfig, command_line: str) -> int:
    """Write the page and print its path."""
    from rlher.analysis.report import write_report

    print(write_report(config, command_line))
    return 0

"""`codl doctor`: what is wrong with the drivers, and what to install."""

import argparse
from dataclasses import asdict

from codl.cli.flags import add_json_flag, add_pair_flag
from codl.cli.output import print_json, print_line, print_table
from codl.devices.doctor import diagnose
from codl.devices.findings import Finding, Status

COLUMNS = ("status", "what", "check", "found")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "doctor",
        help="check drivers, a launch, a copy, coherence, images, fp16, caches; say what to install",
        description="Check every OpenCL driver by using it. Exit code 1 when something is broken.",
        epilog="example: codl doctor --emulate-pair",
    )
    add_json_flag(parser)
    add_pair_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what every check found, then what to do about it."""
    findings = diagnose()
    if args.json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_table(COLUMNS, [(one.status, one.subject, one.check, one.message) for one in findings])
        _print_remedies(findings)
    return int(any(finding.status is Status.BROKEN for finding in findings))


def _print_remedies(findings: tuple[Finding, ...]) -> None:
    remedies = [one for one in findings if one.remedy]
    for finding in remedies:
        print_line(f"{finding.status}: {finding.subject} {finding.check}. What to do: {finding.remedy}")
    if not remedies:
        print_line("all is well")

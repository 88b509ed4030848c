"""The commands that the package installs: each replaces itself by a program in hmc/bin."""

import os
import sys


def path_of(program):
    """The program's file in the package."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", program)


def main():
    """The console command: its name selects the program. hmc_osu is one program of many names."""
    name = os.path.basename(sys.argv[0])
    program = path_of("hmc_osu" if name.startswith("hmc_") else name)
    os.execv(program, [name if name.startswith("hmc_") else program, *sys.argv[1:]])

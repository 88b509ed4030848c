"""``python -m hmc.run [hmcrun's options] program.py [arguments]``: hmcrun with this interpreter for Python programs."""

import os
import sys

from hmc._commands import path_of


def arguments_for(arguments, interpreter):
    """Inserts the interpreter before the program if that is a Python file without one."""
    for i, word in enumerate(arguments):
        if word.endswith(".py") and os.path.isfile(word):
            if i > 0 and os.path.basename(arguments[i - 1]).startswith("python"):
                break
            return [*arguments[:i], interpreter, *arguments[i:]]
    return list(arguments)


def main():
    """Replaces this process by hmcrun."""
    program = path_of("hmcrun")
    os.execv(program, [program, *arguments_for(sys.argv[1:], sys.executable)])


if __name__ == "__main__":
    main()

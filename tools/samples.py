"""Reads the samples that reports are made from. Used by gpu_report.py, moe_report.py and step_report.py."""
import os
import sys


def refuse(line):
    """One clear line, exit status 2."""
    print(f"{os.path.basename(sys.argv[0])}: {line}", file=sys.stderr)
    sys.exit(2)


def files(usage):
    """The files of the command line."""
    return sys.argv[1:] or refuse(f"expected {usage}")


def read(path):
    """[(line number, fields)] without comments."""
    try:
        with open(path, encoding="utf-8") as lines:
            rows = [(i, line.rstrip("\n").split("\t")) for i, line in enumerate(lines, 1) if not line.startswith("#")]
    except OSError as error:
        refuse(f"{path}: {error.strerror}")
    except UnicodeDecodeError:
        refuse(f"{path}: expected text")
    return rows or refuse(f"{path}: there are no rows")


def typed(path, rows, columns):
    """Rows as tuples; columns: [(name, type)]."""
    out = []
    for line, fields in rows:
        try:
            row = tuple(kind(text) for (_, kind), text in zip(columns, fields))
        except ValueError:
            row = ()
        if len(row) != len(columns) or len(row) != len(fields):
            refuse(f"{path}:{line}: expected {', '.join(name for name, _ in columns)}")
        out.append(row)
    return out

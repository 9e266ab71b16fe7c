"""Compare what rules find when each rule is asked first, and when all are, in programs by number.

python -m tests.spellings 10000            # the first 10,000; exits with 1 if a rule misses anything
python -m tests.spellings 1 --from 17      # the 17th, with its text
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.spellings.agreement import findings, missed
from tests.spellings.programs import program
from torchlint import select
from torchlint.engine.rule_table import loaded


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--from", type=int, default=0, dest="first")
    options = parser.parse_args()
    rules = tuple(map(loaded, select(["ALL"], preview=True).rules))
    found: Counter[str] = Counter()
    wrong = 0
    for number in range(options.first, options.first + options.count):
        data = program(number)
        found.update({finding.name for finding in findings(data, rules)})
        names = sorted({finding.name for finding in missed(data, rules)})
        if names or options.count == 1:
            print(f"--- {number}: {', '.join(names)}\n{data.decode()}")
        wrong += bool(names)
    print(f"{options.count} programs, {wrong} with findings that are missed; programs with findings:")
    print("\n".join(f"{count:6} {name}" for name, count in found.most_common()))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

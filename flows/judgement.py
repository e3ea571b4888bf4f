"""Former name of `flows.evaluate_estimator`, which works until version 0.3.

python -m flows.evaluate_estimator
"""

import sys

from flows.evaluate_estimator import main as evaluate


def main() -> None:
    """Print the new name of the command and run it."""
    print("flows.judgement is now flows.evaluate_estimator; the old name works until version 0.3.", file=sys.stderr)
    evaluate()


if __name__ == "__main__":
    main()

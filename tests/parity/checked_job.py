"""The job's program as far as the partitions of its input are looked at; it prints what it found and makes no job."""

import os
import sys

from pyflink.java_gateway import get_gateway

from firstfault_server.detect.flink.partitions import check_partitions
from firstfault_server.detect.flink.plan import PlanError, read_plan


def main(arguments: list[str]) -> int:
    """Exit status."""
    plan = read_plan(arguments, os.environ)
    try:
        check_partitions(plan, plan.topic("firstfault.otlp.v1"), get_gateway().jvm)
    except PlanError as error:
        print(f"REFUSED {error}", flush=True)
        return 2
    print("PASSED", flush=True)
    return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

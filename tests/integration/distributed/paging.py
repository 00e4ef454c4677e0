"""Somebody who is paged by an installation, for the length of a test."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from firstfault_server.adapters.elasticsearch import open_stores
from firstfault_server.cli.clocks import SystemClock
from firstfault_server.ports import Destination
from tests.integration.distributed.services import Installation
from tests.integration.service.pager import Pager
from tests.unit.alerter.receiver import SECRET


@contextmanager
def paging(installation: Installation) -> Iterator[Pager]:
    """Told of every page of the tenant `acme`; the stores are reached directly, whatever the services can reach."""
    with ExitStack() as stack:
        stores = open_stores(installation.elasticsearch, SystemClock(), "test")
        stack.callback(stores.close)
        pager = stack.enter_context(Pager())
        destination = Destination(id="d", tenant="acme", name="pager", url=pager.url, secret=SECRET, allow_private=True, created_ns=1)
        stores.access.put_destination(destination)
        stack.callback(stores.access.remove_destination, "acme", destination.id)
        yield pager

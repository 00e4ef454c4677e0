"""Real servers of the distributed deployment without containers, for tests and laptops.

Their jars come from the Maven repository the machine is set up for, are pinned in `pins/` by version and checksum, and are kept
outside the checkout. A server runs in a folder of its own on free ports of the loopback interface, and ends with whoever started it.
"""

from deploy.native.servers.process import ServerFailed

__all__ = ["ServerFailed"]

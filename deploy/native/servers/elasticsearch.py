"""One Elasticsearch node in a folder of its own.

It is the published server without the modules that Elastic ships beside it: no lifecycle management, no scripts, no requests that
change what a query finds, no security. What the service needs of Elasticsearch must therefore work without them.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deploy.native.servers.jars import cache_folder, fetch
from deploy.native.servers.process import ServerFailed, find_java
from deploy.native.servers.server import Server

JAVA: Final = 21
SOURCE: Final = Path(__file__).with_name("java") / "ElasticsearchNode.java"
TRANSPORT: Final = "transport-netty4"
DESCRIPTORS: Final = f"META-INF/es-plugins/{TRANSPORT}/"
# The compiler of first resort and the simple collector: half the processor time at the start, and in short runs altogether.
JVM: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
    "-Djava.locale.providers=CLDR",
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dlog4j2.disable.jmx=true",
    "-Dio.netty.noUnsafe=true",
    "-Dio.netty.noKeySetOptimization=true",
    "-Dio.netty.recycler.maxCapacityPerThread=0",
    # The library for fast vectors is not published.
    "-Dorg.elasticsearch.nativeaccess.enableVectorLibrary=false",
    "-Des.distribution.type=tar",
    "--add-modules=jdk.net,jdk.management.agent,jdk.incubator.vector,ALL-MODULE-PATH",
    "--enable-native-access=org.elasticsearch.nativeaccess,org.elasticsearch.foreign,org.apache.lucene.core",
)
LOGGING: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1.} - %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


class Elasticsearch(Server):
    """A node that is a cluster of its own."""

    name = "Elasticsearch"
    start_s = 180.0

    def __init__(self, folder: Path, *, port: int = 0, heap: str = "512m") -> None:
        """`port` 0 takes a free one."""
        super().__init__(folder, [port])
        self._heap = heap

    @property
    def address(self) -> str:
        """URL for clients."""
        return f"http://127.0.0.1:{self._ports[0]}"

    def _prepare(self) -> list[str]:
        home = build_home()
        for part in ("config", "data", "tmp"):
            (self._folder / part).mkdir(parents=True, exist_ok=True)
        config = self._folder / "config"
        settings = {
            "cluster.name": "firstfault",
            "node.name": "firstfault",
            "path.data": self._folder / "data",
            "path.logs": self._folder,
            "http.host": "127.0.0.1",
            "http.port": self._ports[0],
            # Nobody joins, but a node has to listen for others.
            "transport.host": "127.0.0.1",
            "transport.port": 0,
            "discovery.type": "single-node",
            # On a disk that is nearly full no index would be made at all.
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }
        (config / "elasticsearch.yml").write_text("".join(f"{key}: {value}\n" for key, value in settings.items()), encoding="utf-8")
        (config / "log4j2.properties").write_text(LOGGING, encoding="ascii")
        options = [*JVM, "-Xms128m", f"-Xmx{self._heap}", f"-Djava.io.tmpdir={self._folder / 'tmp'}", f"-Des.path.home={home}"]
        command = [find_java(JAVA), *options, f"-Des.path.conf={config}", "--module-path", str(home / "lib")]
        return [*command, "-cp", str(home / "launcher"), SOURCE.stem, str(home), str(config)]

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/_cluster/health?wait_for_status=yellow&timeout=1s", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False


def build_home() -> Path:
    """The folder that the server runs from, laid out and compiled once for all. Raises ServerFailed."""
    jars = fetch("elasticsearch")
    key = hashlib.sha256(jars.name.encode() + SOURCE.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    home = cache_folder() / "servers" / f"elasticsearch-home-{key}"
    if home.is_dir():
        return home
    with (home.parent / ".elasticsearch-home.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not home.is_dir():
            part = home.with_name(f".{home.name}")
            shutil.rmtree(part, ignore_errors=True)
            _lay_out(jars, part)
            part.rename(home)
    return home


def _lay_out(jars: Path, home: Path) -> None:
    module = home / "modules" / TRANSPORT
    for folder in (home / "lib", home / "plugins", home / "launcher", module):
        folder.mkdir(parents=True)
    for jar in jars.glob("*.jar"):
        # The same class in the module and on the server's own path is refused.
        own = jar.name.startswith(("netty-", "elasticsearch-ssl-config-", f"{TRANSPORT}-"))
        os.link(jar, (module if own else home / "lib") / jar.name)
    (transport,) = module.glob(f"{TRANSPORT}-*.jar")
    with zipfile.ZipFile(transport) as archive:
        for name in archive.namelist():
            if name.startswith(DESCRIPTORS) and not name.endswith("/"):
                (module / Path(name).name).write_bytes(archive.read(name))
    _link_compression(home)
    compiler = Path(find_java(JAVA)).resolve().with_name("javac")
    if not compiler.is_file():
        raise ServerFailed(f"Elasticsearch needs a Java {JAVA} with its compiler; {compiler} is missing")
    _run([str(compiler), "-nowarn", "-cp", f"{home / 'lib'}/*", "-d", str(home / "launcher"), str(SOURCE)])


def _link_compression(home: Path) -> None:
    """Elastic's package brings libzstd; the system's is as good. Without one, indices with `best_compression` never start."""
    found = sorted(path for folder in ("/usr/lib", "/lib") for path in Path(folder).glob("*-linux-gnu/libzstd.so.1"))
    if not found:
        print("servers: libzstd.so.1 is not installed, so indices with best_compression will not start", file=sys.stderr)
        return
    machine = os.uname().machine
    platform = home / "lib" / "platform" / f"linux-{'x64' if machine == 'x86_64' else machine}"
    platform.mkdir(parents=True)
    (platform / "libzstd.so").symlink_to(found[0])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise ServerFailed(f"the start of Elasticsearch does not compile:\n{(done.stdout + done.stderr)[-2000:]}")

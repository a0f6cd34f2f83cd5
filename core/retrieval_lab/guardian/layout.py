"""The paths of one cluster, shared by the guardian and its clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PORT = 5432
SUPERUSER = "lab"


@dataclass(frozen=True, slots=True)
class Layout:
    """`home` carries PostgreSQL's major version; `sockets` lies in it unless the path would be too long."""

    home: Path
    sockets: Path

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "server.log"

    @property
    def control(self) -> Path:
        return self.home / "control"

    @property
    def keep(self) -> Path:
        """The marker that leaves the server up without clients. It belongs to one life of the server."""
        return self.home / "keep"

    @property
    def socket(self) -> Path:
        return self.sockets / f".s.PGSQL.{PORT}"

    @property
    def shared_folder(self) -> Path | None:
        """The folder around `sockets` where that lies outside `home`, in a place where others may write."""
        return None if self.sockets.parent == self.home else self.sockets.parent

    def lock(self, name: str) -> Path:
        return self.home / "locks" / name

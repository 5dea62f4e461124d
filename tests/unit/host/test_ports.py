import os
import socket

import psutil
import pytest

from loopai_trainer.host import ports


def test_a_port_that_someone_listens_on_is_taken_and_its_owner_known():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        assert ports.is_taken(port)
        assert ports.owner(port) == os.getpid()
    assert not ports.is_taken(port)
    assert ports.owner(port) is None


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_what_is_no_port_is_refused(port):
    with pytest.raises(ValueError, match="is not a TCP port"):
        ports.is_taken(port)


def test_an_owner_that_may_not_be_seen_is_unknown(monkeypatch):
    def refuse(_):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", refuse)
    assert ports.owner(80) is None

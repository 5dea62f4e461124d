"""Whether a TCP port of this host is taken, and by whom."""

import socket


def is_taken(port: int, address: str = "127.0.0.1") -> bool:
    """Whether a listener at `address` would be refused now. Raises ValueError for what is no port."""
    if not 0 < port < 65536:
        raise ValueError(f"{port} is not a TCP port")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return True
    return False


def free(address: str = "127.0.0.1") -> int:
    """A port that nobody has at this moment. Raises OSError if none can be had (a sandbox, no loopback)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def owner(port: int) -> int | None:
    """The pid that listens on `port`; None if it is another user's or cannot be seen."""
    import psutil

    try:
        connections = psutil.net_connections("tcp")
    except psutil.Error:
        return None
    for connection in connections:
        if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
            return int(connection.pid) if connection.pid else None
    return None

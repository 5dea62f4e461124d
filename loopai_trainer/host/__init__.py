"""What this host is and runs: locks, processes, environments, devices, ports."""

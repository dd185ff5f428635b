"""Many runs that are one: shards merged, devices side by side, hosts of a cluster."""

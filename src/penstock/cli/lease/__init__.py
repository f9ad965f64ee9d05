"""``penstock lease``: who is primary, as etcd or Kubernetes says."""

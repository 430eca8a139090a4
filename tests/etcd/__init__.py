"""The register of a group of copies in a real etcd: what `make etcd` runs."""

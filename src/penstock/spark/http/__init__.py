"""The sink ``http``: each row's body by POST to an endpoint, for ``deliver`` pipelines."""

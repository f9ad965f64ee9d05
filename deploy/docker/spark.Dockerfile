# Penstock with Spark and its Java, for `penstock pipeline`:
#   docker build --file deploy/docker/spark.Dockerfile --tag penstock-spark .
FROM python:3.12-slim AS build

WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt hatch_build.py ./
COPY src ./src
RUN python -m venv /opt/penstock
RUN /opt/penstock/bin/pip install --no-cache-dir --constraint constraints.txt '.[spark]'

FROM python:3.12-slim

# Spark's start scripts ask ps which processes there are.
RUN apt-get update && apt-get install --yes --no-install-recommends procps && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/penstock /opt/penstock
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin penstock
RUN install --directory --owner=penstock --group=penstock --mode=0750 /data
ENV PATH=/opt/penstock/bin:$PATH
USER 10001:10001
WORKDIR /data
VOLUME /data
# Put the pipeline's file after the image's name: docker run penstock-spark run /data/pipeline.toml
ENTRYPOINT ["penstock", "pipeline"]
CMD ["--help"]

# Debian 12 with shardprep, loadbench and train; docs/TRAIN.md says how to run it.
FROM debian:bookworm
COPY . /penstock
WORKDIR /penstock
RUN PIP_NO_CACHE_DIR=1 script/setup train && script/build tools && rm -rf /root/.cache /var/lib/apt/lists/*
ENV PATH=/penstock/build/tools/bin:$PATH
WORKDIR /mnt

# SPDX-License-Identifier: Apache-2.0
#
# The server for machines without a GPU.
#
#     docker build -f docker/cpu.Dockerfile -t tandem .
#     docker run -p 127.0.0.1:8080:8080 -e TANDEM_INSECURE=1 -v "$PWD/models:/models:ro" \
#         tandem serve /models/NAME
#
# It runs as any user, with a read-only root. What it writes goes below /data. Each option of
# `tandem serve --help` is a variable; a key file is TANDEM_API_KEY_FILE=/run/secrets/NAME.
ARG BASE=debian:12-slim

FROM ${BASE} AS build
RUN apt-get -q update && apt-get -q -y install --no-install-recommends make ca-certificates
WORKDIR /src
COPY . .
RUN make deps SETS=build
RUN make && make install DESTDIR=/out PREFIX=/usr && strip /out/usr/bin/tandem

FROM ${BASE}
RUN apt-get -q update && \
    apt-get -q -y install --no-install-recommends \
      ca-certificates libcjson1 libcurl4 libjemalloc2 libpcre2-8-0 libutf8proc2 && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log && \
    mkdir -m 1777 /data && mkdir /models
COPY --from=build /out/usr /usr
LABEL org.opencontainers.image.title="Tandem" \
      org.opencontainers.image.description="Serves and fine-tunes language models from one program" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.documentation="/usr/share/doc/tandem/README.md"
ENV TANDEM_HOST=0.0.0.0 TANDEM_DATA_DIR=/data TANDEM_LOG_FORMAT=json HF_HOME=/data/huggingface
USER 65532:65532
VOLUME ["/models", "/data"]
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=120s --interval=15s --timeout=5s CMD ["tandem", "health"]
ENTRYPOINT ["tandem"]
CMD ["serve"]

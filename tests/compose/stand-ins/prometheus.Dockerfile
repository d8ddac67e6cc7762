# In place of prom/prometheus:v3.5.0: Debian's Prometheus 2.42, with the image's user, folder and entry point.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends prometheus && rm -rf /var/lib/apt/lists/* \
 && install --directory --owner=65534 --group=65534 /prometheus
USER 65534:65534
WORKDIR /prometheus
EXPOSE 9090
ENTRYPOINT ["prometheus"]

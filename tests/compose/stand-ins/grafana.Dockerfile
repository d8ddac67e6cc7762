# In place of grafana/grafana:12.1.0, which Debian does not have: no Grafana, only its address, its user and an answer to its health check.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends busybox && rm -rf /var/lib/apt/lists/* \
 && ln -s /bin/busybox /usr/bin/wget && mkdir -p /srv/api && echo '{"database": "ok", "version": "stand-in"}' > /srv/api/health \
 && install --directory --owner=472 --group=0 /var/lib/grafana
USER 472:0
EXPOSE 3000
CMD ["busybox", "httpd", "-f", "-p", "3000", "-h", "/srv"]

# In place of redis:7.4-bookworm: Debian's Redis 7.0.
FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/*
EXPOSE 6379
CMD ["redis-server"]

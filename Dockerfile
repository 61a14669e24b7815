# syntax=docker/dockerfile:1
# A static binary in an empty image: no shell, no package manager, not root.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -tags grpcnotrace \
      -ldflags "-s -w -X github.com/lovage-project/lovage/pkg/command.Version=${VERSION}" \
      -o /out/worker ./cmd/worker \
 && mkdir -p /out/data /out/etc/lovage \
 && cp configs/celery.yaml /out/etc/lovage/celery.yaml

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/worker /worker
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build /out/etc/lovage /etc/lovage
ENV LOVAGE_CONFIG=/etc/lovage/celery.yaml \
    LOVAGE_HEALTH_LISTEN=127.0.0.1:8080 \
    LOVAGE_EMBEDDED_BROKER_DATA_DIR=/data
USER 65532:65532
VOLUME /data
EXPOSE 50000
# The binary checks itself: there is no shell and no curl to do it.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/worker", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/worker"]

# An image of one static binary: no shell, no C library, nothing to patch but it.
#
#   docker build --tag kube-gc:0.1.0 .
#
# deploy/build-image makes the same with buildah and without a registry; `make image`
# does that and runs what came out.
FROM docker.io/library/rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends make musl-tools && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN install -D "$(deploy/build-static)" /image/kube-gc

FROM scratch
COPY --from=build /image/ /
# As in deploy/base/deployment.yaml, for those who run it otherwise. A number,
# since there is no /etc/passwd.
USER 65532:65532
# Probes and metrics, once `listen` says so: by default it is on loopback.
EXPOSE 8080
ENTRYPOINT ["/kube-gc"]
CMD ["run"]

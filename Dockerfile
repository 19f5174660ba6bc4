# An image with one static binary: no shell, no C library, nothing else to patch.
#
#   docker build --tag kube-gc:0.1.0 .
#
# deploy/build-image builds the same image with buildah and without a registry. `make image`
# does that and tests the result.
FROM docker.io/library/rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends make musl-tools && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN install -D "$(deploy/build-static)" /image/kube-gc

FROM scratch
COPY --from=build /image/ /
# As in deploy/base/deployment.yaml, for other ways to run it. A number, because there is
# no /etc/passwd.
USER 65532:65532
# Probes and metrics, if `listen` says so. By default they are on loopback.
EXPOSE 8080
ENTRYPOINT ["/kube-gc"]
CMD ["run"]

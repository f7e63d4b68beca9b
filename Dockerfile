# The node's side alone, for --probe-image and `kubectl debug`. It is the image that `make image` writes as an archive without a
# builder or a registry; this is for those who have both:
#   make image && docker buildx build --platform linux/amd64,linux/arm64 -t REGISTRY/csidoctor-probe:VERSION .
# It begins with nothing, so there is no base image to pin: the program's source pins all that is in it.
FROM scratch
ARG TARGETARCH
COPY dist/image/linux-${TARGETARCH}/ /
ENV PATH=/usr/local/bin
ENTRYPOINT ["/usr/local/bin/csidoctor-probe"]

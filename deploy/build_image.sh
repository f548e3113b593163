#!/bin/sh
# Build the container image with buildah: deploy/build_image.sh TAG [OPTION...]
#
# BASE        another base image, with Python 3.11 or later and its venv
# ISOLATION   "chroot" where the kernel or a sandbox allows no other
# OPTION      goes to buildah, such as --volume /etc/pip.conf:/etc/pip.conf:ro for a package mirror
set -eu
cd "$(dirname "$0")/.."
tag="${1:?Say what to call the image: deploy/build_image.sh localhost/toolgate}"
shift
version="$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' src/toolgate/__init__.py)"
# Images in the OCI format have no health check.
exec buildah build --format docker \
  ${ISOLATION:+--isolation "$ISOLATION"} ${BASE:+--build-arg "BASE=$BASE"} \
  --build-arg "VERSION=$version" --ignorefile .containerignore \
  --tag "$tag" --file deploy/Containerfile "$@" .

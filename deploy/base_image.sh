#!/bin/sh
# Make a base image from Debian packages, for machines that reach no image registry. Needs mmdebstrap
# and podman: deploy/base_image.sh [TAG]; then: make image BASE=TAG
set -eu
tag="${1:-localhost/toolgate-base:bookworm}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
mmdebstrap --variant=minbase \
  --include=ca-certificates,git,python3,python3-venv,tini \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  bookworm "$folder/base.tar"
podman import "$folder/base.tar" "$tag"

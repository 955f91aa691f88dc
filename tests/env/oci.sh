#!/usr/bin/env bash
# Packs a directory as an OCI image archive, without a container engine or a registry:
#   oci.sh NAME[,NAME…] ROOTFS OUT.tar [CONFIG-JSON]
# CONFIG-JSON is the image's "config" object: {"User": …, "Cmd": […], "Entrypoint": […], "Env": […]}.
# Reproducible: the same input gives the same bytes, whatever the clock, the owner or the order of directory entries.
set -euo pipefail

name=$1 rootfs=$2 out=$3 config=${4:-'{}'}
umask 022
epoch=1970-01-01T00:00:00Z
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blobs=$work/blobs/sha256
mkdir -p "$blobs"

pack() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=gnu -C "$1" -cf "$2" .; }

# `store FILE`: moves it among the blobs and prints its descriptor's digest and size.
store() {
  local digest size
  digest=$(sha256sum "$1" | cut -d' ' -f1)
  size=$(stat -c %s "$1")
  mv "$1" "$blobs/$digest"
  echo "sha256:$digest $size"
}

case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64) arch=arm64 ;;
  *) arch=$(uname -m) ;;
esac

pack "$rootfs" "$work/layer"
read -r layer layer_size < <(store "$work/layer")

jq -cn --arg arch "$arch" --arg at "$epoch" --arg layer "$layer" --argjson config "$config" '{
  created: $at, architecture: $arch, os: "linux", config: $config,
  rootfs: {type: "layers", diff_ids: [$layer]},
  history: [{created: $at, created_by: "tests/env/oci.sh"}]}' >"$work/config"
read -r conf conf_size < <(store "$work/config")

jq -cn --arg conf "$conf" --argjson conf_size "$conf_size" --arg layer "$layer" --argjson layer_size "$layer_size" '{
  schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json",
  config: {mediaType: "application/vnd.oci.image.config.v1+json", digest: $conf, size: $conf_size},
  layers: [{mediaType: "application/vnd.oci.image.layer.v1.tar", digest: $layer, size: $layer_size}]}' \
  >"$work/manifest"
read -r manifest manifest_size < <(store "$work/manifest")

jq -cn --arg names "$name" --arg digest "$manifest" --argjson size "$manifest_size" --arg arch "$arch" '{
  schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
  manifests: [$names | split(",")[] | {
    mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $digest, size: $size,
    platform: {architecture: $arch, os: "linux"},
    annotations: {"io.containerd.image.name": ., "org.opencontainers.image.ref.name": (split(":") | last)}}]}' \
  >"$work/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/oci-layout"

pack "$work" "$out.part"
mv "$out.part" "$out"

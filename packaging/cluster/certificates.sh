#!/bin/sh
# Makes an authority and a certificate of each host, for the nodes of one group and the members of its etcd.
#
#     sh certificates.sh FOLDER HOST…
#
# FOLDER gets ca.pem, and for each host HOST.pem and HOST.key. Files that are there are kept, so run it again to add a host.
# ca.key makes further certificates: keep it away from the nodes.
set -eu
folder=$1
shift
umask 077
mkdir -p "$folder" && cd "$folder"

openssl_quiet() {
    openssl "$@" 2>openssl.said || { cat openssl.said >&2 && exit 1; }
    rm openssl.said
}

new_key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
if [ ! -e ca.pem ]; then
    # shellcheck disable=SC2086 # several words
    openssl_quiet req -x509 $new_key -keyout ca.key -out ca.pem -days 3650 -subj "/CN=authority of a delaymq group"
fi
for host; do
    [ ! -e "$host.pem" ] || continue
    # A node and a member of etcd is a server to some of the others and a client of the rest.
    printf 'subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$host" >"$host.extensions"
    # shellcheck disable=SC2086 # several words
    openssl_quiet req $new_key -keyout "$host.key" -out "$host.request" -subj "/CN=$host"
    openssl_quiet x509 -req -in "$host.request" -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 \
        -extfile "$host.extensions" -out "$host.pem"
    rm "$host.request" "$host.extensions"
done

#!/bin/sh
# Three copies of a store on this machine: the primary is killed, and the message is delivered all the same.
#
#     sh examples/cluster.sh ./group
#
# The nodes end with the script. Their ports are 20801 to 20809, or those that the variable PORTS has.
set -eu
mkdir -p "$1" && cd "$1"
delaymq=${DELAYMQ:-delaymq}
# shellcheck disable=SC2086 # one word for each port
set -- ${PORTS:-20801 20802 20803 20804 20805 20806 20807 20808 20809}
clients=delaymq://127.0.0.1:$1,127.0.0.1:$2,127.0.0.1:$3

settings() { # of node $1: for clients, HTTP and nodes its ports $2, $3 and $4, and the other nodes' ports $5 and $6
    cat <<END
store.path = "node$1"
server.port = $2
http.port = $3

[cluster]
listen = "127.0.0.1:$4"
peers = ["127.0.0.1:$5", "127.0.0.1:$6"]
register = "file:register"
END
}

serve() {
    $delaymq serve --config "node$1.toml" >"node$1.log" 2>&1 &
}

settings 1 "$1" "$4" "$7" "$8" "$9" >node1.toml
settings 2 "$2" "$5" "$8" "$7" "$9" >node2.toml
settings 3 "$3" "$6" "$9" "$7" "$8" >node3.toml

$delaymq cluster create --config node1.toml
trap 'kill $nodes 2>/dev/null || true' EXIT
serve 1 && first=$!
serve 2 && nodes="$first $!"
serve 3 && nodes="$nodes $!"

# Publishes are refused until two copies follow.
until $delaymq publish order 'pay for order 42' --delay 2s --server "$clients" \
    --message-id order-42 --deduplicate 2>>refused.log; do
    sleep 0.2
done
$delaymq cluster status --config node1.toml
kill -9 "$first"
# Another node is the primary a few seconds later.
until $delaymq consume order --group billing --count 1 --server "$clients" 2>>refused.log; do
    sleep 0.2
done

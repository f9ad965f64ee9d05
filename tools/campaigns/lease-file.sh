#!/bin/sh
# A lease in a file on a file system that the nodes share: exit code 0 if this node holds it for the epoch.
#
#   nsqd --follow=a:4151 --promote-before-hook='/usr/local/lib/penstock/lease-file.sh /mnt/shared/orders.lease'
#
# The file has one line: history, epoch and address of the holder. It never expires: to let another node
# have an epoch whose holder is gone for good, remove it. The file system must know flock (NFS does since
# version 4, and Linux's version 3 with lockd).
set -eu
file=${1:?the file of the lease}
export LC_ALL=C

exec 9>>"$file.lock"
flock -w 20 9 || { echo "$file.lock is held by another for more than 20 s"; exit 1; }

epoch=$PENSTOCK_EPOCH
if [ -e "$file" ]; then
    history='' held='' holder=''
    read -r history held holder <"$file" || true # of a last line without its end
    case $held in
    '' | *[!0-9]* | ???????????????????*) holder='' ;; # no number, or none that the shell can compare
    esac
    if [ -z "$holder" ]; then
        echo "$file is damaged, so whose epoch it is cannot be known: write 'HISTORY EPOCH ADDRESS' of the primary" \
            "into it, as its /replication says, or remove it if no node is primary"
        exit 1
    fi
    if [ "$history" != "$PENSTOCK_HISTORY" ]; then
        echo "$file is the lease of other nodes: give each pair one of its own"
        exit 1
    fi
    if [ "$held" -ge "$epoch" ]; then
        if [ "$holder" != "$PENSTOCK_ADDRESS" ]; then
            echo "$holder holds $file for epoch $held: follow it, or remove the file if it is gone for good"
            exit 1
        fi
        epoch=$held
    fi
fi
# A reader never sees half a line, and a power cut leaves the old one or the new one.
echo "$PENSTOCK_HISTORY $epoch $PENSTOCK_ADDRESS" >"$file.new"
sync "$file.new"
mv "$file.new" "$file"
sync "$(dirname "$file")"
echo "epoch=$epoch"

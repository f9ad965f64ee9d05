#!/bin/sh
# pair.py with the environment of the pair's unit, for keepalived, which has none of its own.
set -eu
set -a
. "${PAIR_ENV:-/etc/penstock/pair.env}"
exec "${PAIR_PYTHON:-/opt/penstock/bin/python}" "$(dirname "$0")/pair.py" "$@"

# For the images' tests: a check is one line, and what a failed one printed comes before it.

# quiet WHAT COMMAND…: run it, keep its output for the case that it fails, say how it went.
quiet() {
    what=$1
    shift
    if "$@" >quiet.log 2>&1; then
        echo "ok: $what"
    else
        status=$?
        cat quiet.log
        echo "failed with exit code $status: $what"
        exit 1
    fi
}

# says EXPECTED COMMAND…: whether its output is that.
says() {
    expected=$1
    shift
    got=$("$@") || return
    [ "$got" = "$expected" ] || { echo "it printed '$got', expected '$expected'"; return 1; }
}

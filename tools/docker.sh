#!/bin/sh
# Let this kernel run arm programs, and start the Docker daemon where nothing else does.
# Changes nothing where both are so already. Exit code 1: container boards cannot be had here.
#   docker.sh [sudo|none]   how to become root: not at all is needed by root, none: it cannot be done
#   DOCKER_HOST             names a daemon elsewhere: then none is started
set -u

log=/var/log/edge-toolchain-dockerd.log
binfmt=/proc/sys/fs/binfmt_misc
seconds=60 # a busy machine needs 10

say() { echo "deps: $*" >&2; }

is_registered() { [ -e "$binfmt/edge-$1" ]; }

# Debian registers its emulators without C (credentials): sudo on a board needs it. Ours stand
# beside Debian's and are asked first, being younger. With F the kernel keeps the emulator open, so
# that no board needs a file of it; with P a program sees the name it was called by.
register() { # name, magic, mask
    is_registered "$1" && return 0
    emulator=$(command -v "qemu-$1-static") || emulator=$(command -v "qemu-$1") || return 1
    [ -e "/usr/libexec/qemu-binfmt/$1-binfmt-P" ] && emulator=/usr/libexec/qemu-binfmt/$1-binfmt-P
    printf '%s' ":edge-$1:M::$2:$3:$emulator:POCF" >"$binfmt/register"
}

run_foreign_programs() {
    if [ ! -e $binfmt/register ]; then
        modprobe binfmt_misc 2>/dev/null
        mount -t binfmt_misc binfmt_misc $binfmt || return 1
    fi
    # The first 20 bytes of an ELF program: class, byte order, kind (program or shared), machine.
    rest='\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00'
    most='\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    register aarch64 "\\x7fELF\\x02$rest\\xb7\\x00" "\\xff\\xff\\xff\\xff$most" &&
        register arm "\\x7fELF\\x01$rest\\x28\\x00" "\\xff\\xff\\xff\\xff$most"
}

answers() {
    python3 - <<'PYTHON'
import socket, sys
with socket.socket(socket.AF_UNIX) as daemon:
    daemon.settimeout(5)
    try:
        daemon.connect("/var/run/docker.sock")
        daemon.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        sys.exit(b"200" not in daemon.recv(64))
    except PermissionError:
        print("deps: Docker runs, but not for you; as root: usermod -aG docker YOUR-NAME", file=sys.stderr)
    except OSError:
        sys.exit(1)
PYTHON
}

wait_for_answer() { # pid of the daemon, 0: not ours to watch
    deadline=$(($(date +%s) + seconds))
    until answers; do
        [ "$(date +%s)" -lt $deadline ] || return 1
        [ "$1" = 0 ] || kill -0 "$1" 2>/dev/null || return 1
        sleep 0.3
    done
}

# Left by a program that was killed: nobody has that number, another program has it, or the dead
# one itself, whom its parent has not noticed yet. The daemon would take them all for alive.
forget() { # file, program
    pid=$(cat "$1" 2>/dev/null)
    who=$(sed -n 's/^\(Name\|State\):\t\([^ ]*\).*/\2/p' "/proc/${pid:-none}/status" 2>/dev/null | tr '\n' ' ')
    case $who in
        "$2 Z ") rm -f "$1" ;;
        "$2 "*) ;;
        *) rm -f "$1" ;;
    esac
}

daemon() { # options of dockerd
    forget /var/run/docker.pid dockerd
    forget /var/run/docker/containerd/containerd.pid containerd
    say "starting dockerd${*:+ $*}; it logs to $log"
    # In a session of its own and without our files: it outlives make.
    setsid nohup dockerd "$@" </dev/null >>$log 2>&1 3>&- 4>&- 8>&- 9>&- &
    started=$!
    wait_for_answer $started && return 0
    kill $started 2>/dev/null
    wait $started 2>/dev/null
    return 1
}

start_docker() {
    answers && return 0
    command -v dockerd >/dev/null || { say "there is no dockerd"; return 1; }
    if [ -d /run/systemd/system ]; then
        systemctl start docker && wait_for_answer 0
        return
    fi
    exec 9>/run/edge-toolchain-dockerd.lock
    flock -w $((2 * seconds)) 9 || return 1 # another make may be at it
    answers && return 0
    # Where the firewall cannot be changed, boards are still reached through Docker's own proxy.
    daemon || daemon --iptables=false --ip6tables=false && return 0
    say "dockerd does not start; the end of $log:"
    tail -n 5 $log >&2
    return 1
}

is_ready() {
    is_registered aarch64 && is_registered arm && { [ -n "${DOCKER_HOST:-}" ] || answers; }
}

is_ready && exit 0
if [ "$(id -u)" != 0 ]; then
    [ "${1:-none}" != none ] && exec "$1" env "DOCKER_HOST=${DOCKER_HOST:-}" "$0"
    say "as root, type: $PWD/${0#./}"
    exit 1
fi
run_foreign_programs || { say "the kernel cannot be made to run arm programs (binfmt_misc)"; exit 1; }
[ -n "${DOCKER_HOST:-}" ] || start_docker

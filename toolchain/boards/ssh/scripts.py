"""Shell scripts that run on a board: POSIX, with nothing beyond coreutils or busybox.

Every script gets the arguments TOKEN and ROOT. Its first line is `TOKEN ready`, or `TOKEN` and a problem,
so that text which a login shell prints before is not mistaken for its answer.
"""

from __future__ import annotations

import shlex

_BEGIN = r"""
token=$1 root=$2
shift 2
say() { printf '%s %s\n' "$token" "$1"; }
cd -- "$root" 2>/dev/null || { say folder; exit 0; }
LC_ALL=C
export LC_ALL
"""

# A watcher reads the channel's standard input. When that ends, because we closed it or the connection is
# lost, it ends the command and its children. sshd made the command the leader of a process group; the
# watcher belongs to the group, so the group's number cannot be reused in the meantime.
# GRACE 0: kill at once. Else wait GRACE tenths of a second for the command to exit, send SIGTERM, wait as
# long again, kill. Handle 4 keeps the channel's standard error open: when that ends, nothing runs any more.
_WATCH = r"""
watch() {
    trap '' HUP INT TERM PIPE
    cat
    if [ "$grace" -gt 0 ]; then
        patient && kill -TERM "-$$" && patient
    fi
    kill -KILL "-$$"
}
patient() {
    tenths=0
    while [ "$tenths" -lt "$grace" ]; do
        kill -0 "$$" || return 1
        sleep 0.1 || { sleep 1; tenths=$((tenths + 9)); }
        tenths=$((tenths + 1))
    done
}
"""

_FIND = r"""
case $1 in
*/*)
    [ -f "$1" ] || { say missing; exit 0; }
    [ -x "$1" ] || { say denied; exit 0; } ;;
*) command -v "$1" >/dev/null 2>&1 || { say missing; exit 0; } ;;
esac
ulimit -c 0
"""

# Arguments: ARGV…; the command has the channel to itself, and no watcher.
TALK = _BEGIN + _FIND + 'say ready\nexec "$@"\n'

# Arguments: GRACE SIZE ARGV…; SIZE bytes of input come through the channel. They go through a named
# pipe, so that a password among them is never in a file.
RUN = (
    _BEGIN
    + _WATCH
    + r"""
grace=$1 size=$2
shift 2
"""
    + _FIND
    + r"""
exec 3<&0
if [ "$size" -gt 0 ]; then
    pipe=$(mktemp -d) && mkfifo "$pipe/in" || { say pipe; exit 0; }
    { head -c "$size" <&3 >"$pipe/in"; watch <&3; } 4>&2 >/dev/null 2>&1 &
    exec <"$pipe/in"
    rm -r -- "$pipe"
else
    [ "$grace" -gt 0 ] || exec </dev/null
    watch <&3 4>&2 >/dev/null 2>&1 &
fi
exec 3<&-
say "ready $$"
exec "$@"
"""
)

# Arguments: PATH SIZE MODE. The content comes through the channel; incomplete content is dropped.
PUT = (
    _BEGIN
    + r"""
say ready
path=./$1 size=$2 mode=$3
folder=${path%/*} part=${path%/*}/.${path##*/}.$token.part
trap 'rm -f "$part"' EXIT
trap 'exit 1' HUP INT TERM PIPE
[ ! -d "$path" ] || { echo "$path: Is a directory" >&2; exit 1; }
new=
[ -d "$folder" ] || { new=1; mkdir -p "$folder" || exit 1; }
find "$folder" -maxdepth 1 -name ".${path##*/}.*.part" -mmin +1440 -exec rm -f {} + 2>/dev/null
cat >"$part" || exit 1
[ "$(wc -c <"$part")" -eq "$size" ] || { echo "$path: cut short" >&2; exit 1; }
[ -z "$mode" ] || chmod "$mode" "$part" || exit 1
sync "$part" && mv -f "$part" "$path" || exit 1
if [ "$new" ]; then sync; else sync "$folder"; fi
"""
)

# Argument: PATH.
GET = _BEGIN + '[ -f "./$1" ] || { say missing; exit 0; }\nsay ready\ncat "./$1"\n'

# Argument: PATH. One line for each entry that is not hidden: bytes, modification time, name.
LISTING = _BEGIN + 'say ready\ncd "./$1" 2>/dev/null || exit 0\nstat -c "%s %Y %n" -- * 2>/dev/null\nexit 0\n'

# Argument: PATH.
TOUCH = _BEGIN + 'say ready\n[ -e "./$1" ] || { echo "no such file" >&2; exit 1; }\ntouch "./$1"\n'

# Arguments: PATH …
REMOVE = _BEGIN + 'say ready\nfor path; do\n    rm -rf "./$path" || exit 1\ndone\n'

# Argument: a public key. ROOT is the login's home.
INSTALL_KEY = (
    _BEGIN
    + r"""
say ready
umask 077
mkdir -p .ssh && touch .ssh/authorized_keys || exit 1
grep -qxF "$1" .ssh/authorized_keys && exit 0
[ -z "$(tail -c 1 .ssh/authorized_keys)" ] || echo >>.ssh/authorized_keys
printf '%s\n' "$1" >>.ssh/authorized_keys && sync .ssh/authorized_keys
"""
)


def command_line(script: str, *arguments: str) -> str:
    """Return the command for sshd: one `sh` with the script, whatever the login shell is."""
    return "exec " + shlex.join(["sh", "-c", script, "sh", *arguments])

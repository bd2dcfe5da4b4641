"""Shell scripts that run on a board: POSIX, with nothing beyond coreutils or busybox.

Every script gets the arguments TOKEN and ROOT. Its first line is `TOKEN ready`, or `TOKEN` and a problem,
so that text which a login shell prints before is not mistaken for its answer.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

_PLAIN = re.compile(
    rb"[^A-Za-z0-9 _./:;=+,@^#<>()\[\]{}|&*?\"$`~-]"
)  # not so: these, in single quotes everywhere
_PIECE = 200  # bytes, of which each may take five

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
# dropbear makes no group: setsid does it, where there is one, and else the watcher ends all that descend
# from the command. Those are stopped first, so that none starts another meanwhile.
# GRACE 0: kill at once. Else wait GRACE tenths of a second for the command to exit, send SIGTERM, wait as
# long again, kill. Handle 4 keeps the channel's standard error open: when that ends, nothing runs any more.
_WATCH = r"""
watch() {
    trap '' HUP INT TERM PIPE
    read -r me _ </proc/self/stat
    cat
    if [ "$grace" -gt 0 ]; then
        patient && { kill -TERM "-$$" || kill -TERM $(family); } && patient
    fi
    kill -KILL "-$$"
    kill -STOP $(family)
    kill -KILL $(family)
}
patient() {
    tenths=0
    while [ "$tenths" -lt "$grace" ]; do
        kill -0 "$$" || return 1
        sleep 0.1 || { sleep 1; tenths=$((tenths + 9)); }
        tenths=$((tenths + 1))
    done
}
family() {
    known=" $$ " grown=1
    while [ "$grown" ]; do
        grown=
        set -- $(sed -n 's/^\([0-9]*\) (.*) [A-Z] \([0-9]*\) .*/\1 \2/p' /proc/[0-9]*/stat)
        while [ $# -gt 1 ]; do
            case $known in
            *" $1 "*) ;;
            *" $2 "*) [ "$1" = "$me" ] || { known="$known$1 " grown=1; } ;;
            esac
            shift 2
        done
    done
    echo $known
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

# Makes a named pipe in a folder of its own, which nobody else may enter: below ROOT where the board has no
# folder for temporary files. There a run that was killed leaves its folder, and the next run removes it.
_PIPE = r"""
make_pipe() {
    for left in ./.input.*; do
        [ -d "/proc/${left#./.input.}" ] || [ ! -d "$left" ] || rm -rf "$left"
    done
    pipe=$(mktemp -d 2>/dev/null) && mkfifo "$pipe/in" 2>/dev/null && return
    [ -z "$pipe" ] || rm -rf "$pipe"
    pipe=./.input.$$
    rm -rf "$pipe"
    mkdir -m 700 "$pipe" && mkfifo "$pipe/in"
}
"""

# Arguments: GRACE SIZE ARGV…; SIZE bytes of input come through the channel. They go through a named
# pipe, so that a password among them is never in a file.
RUN = (
    _BEGIN
    + _WATCH
    + _PIPE
    + r"""
grace=$1 size=$2
shift 2
"""
    + _FIND
    + r"""
exec 3<&0
if [ "$size" -gt 0 ]; then
    make_pipe || { say pipe; exit 0; }
    { head -c "$size" <&3 >"$pipe/in"; watch <&3; } 4>&2 >/dev/null 2>&1 &
    exec <"$pipe/in"
    rm -r -- "$pipe"
else
    [ "$grace" -gt 0 ] || exec </dev/null
    watch <&3 4>&2 >/dev/null 2>&1 &
fi
exec 3<&-
leader=
kill -0 "-$$" 2>/dev/null || leader=$(command -v setsid)
say "ready $$"
exec $leader "$@"
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
    """Return the command for sshd: one `sh` with the script, whatever the login shell is.

    The login shell parses this line. csh ends quoted words at a line break, expands `!` in them, and
    takes no words above a thousand bytes; fish knows `\\'` in them. So all but plain characters is encoded
    as `printf %b` reads it, in several words, and `sh` evaluates what printf prints.
    """
    text = shlex.join(["set", "--", *arguments]) + "\n" + script
    pieces = [_PLAIN.sub(lambda match: f"\\0{match[0][0]:03o}".encode(), piece) for piece in _cut(text)]
    words = " ".join(f"'{piece.decode()}'" for piece in pieces)
    return f"""exec sh -c 'eval "$(printf %b "$@")"' sh {words}"""


def _cut(text: str) -> Iterator[bytes]:
    data = text.encode()
    for begin in range(0, len(data), _PIECE):
        yield data[begin : begin + _PIECE]

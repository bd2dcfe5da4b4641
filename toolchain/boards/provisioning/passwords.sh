# As root: lets the sshd above this session accept passwords (on) or keys alone (off).
# $1: on or off; $2: the login; $3: the drop-in's content. Says in one line what it did: changed, same or refused.
# After "changed" with off it waits for the line "keep"; anything else, or nothing for 60 s, undoes the change.
set -fu
PATH=$PATH:/usr/sbin:/sbin
say() { printf '%s %s\n' "$1" "$2"; }
refuse() { say refused "$1"; exit 1; }
wanted=$1 login=$2 content=$3

# The server is the topmost sshd among our ancestors. Where each connection has its own there is none to reload.
pid=$$ server=
while [ "$pid" -gt 0 ]; do
  if [ "$(cat "/proc/$pid/comm")" = sshd ]; then server=$pid; fi
  while read -r key value; do if [ "$key" = PPid: ]; then pid=$value; break; fi; done <"/proc/$pid/status"
done
config=/etc/ssh/sshd_config program=
if [ -n "$server" ]; then
  program=$(readlink "/proc/$server/exe")
  words=$(tr '\0' ' ' <"/proc/$server/cmdline")
  case $words in "sshd: "[!/]*) server= words=;; esac
  # shellcheck disable=SC2086 # into words
  set -- $words
  while [ $# -gt 1 ]; do
    if [ "$1" = -f ]; then config=$2; fi
    shift
  done
fi
if [ ! -x "$program" ]; then program=$(command -v sshd) || refuse "there is no sshd"; fi
if [ ! -r "$config" ]; then refuse "there is no $config"; fi
file=$(dirname "$config")/sshd_config.d/00-edge-toolchain.conf

accepts() { # whether a login may still use a password; sshd 10.6 says PasswordAuthentication
  "$program" -T -f "$config" -C "user=$1,host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22" |
    grep -Eiq '^(passwordauthentication|kbdinteractiveauthentication|challengeresponseauthentication) yes$'
}
listeners() { # the sockets at which the server takes connections: others after it has read its configuration anew
  # shellcheck disable=SC2012 # -l shows where the links lead
  ls -l "/proc/$server/fd" 2>/dev/null | sed -n 's/.*socket:\[\([0-9]*\)\]$/\1/p' | while read -r inode; do
    if grep -q " 0A .* $inode " /proc/net/tcp /proc/net/tcp6 2>/dev/null; then echo "$inode"; fi
  done
}
reload() { # waits until the new configuration is in use: a login before that would prove nothing
  if [ -z "$server" ]; then return; fi
  before=$(listeners) left=100
  kill -HUP "$server"
  while [ "$left" -gt 0 ]; do
    now=$(listeners) left=$((left - 1))
    if [ -n "$now" ] && [ "$now" != "$before" ]; then return; fi
    sleep 0.1
  done
}
undo() {
  if [ -e "$file.old" ]; then mv -f "$file.old" "$file"; else rm -f "$file"; fi
}
check() { # undoes what the server would not start with
  if ! "$program" -t -f "$config"; then undo; refuse "sshd -t finds fault with $config"; fi
}

if [ "$wanted" = on ]; then
  if [ ! -e "$file" ]; then say same "$file"; exit 0; fi
  mv -f "$file" "$file.old"
  check
  rm -f "$file.old"
  reload
  say changed "$file"
  exit 0
fi
if ! grep -Eiq '^[[:space:]]*Include[[:space:]].*sshd_config\.d' "$config"; then refuse "$config includes no drop-in files"; fi
if [ -e "$file" ] && ! accepts "$login"; then say same "$file"; exit 0; fi
umask 022
mkdir -p "$(dirname "$file")"
printf '%s' "$content" >"$file.new" || refuse "cannot write $file"
if [ -e "$file" ]; then mv -f "$file" "$file.old"; fi
mv -f "$file.new" "$file"
check
if accepts "$login"; then undo; refuse "$config allows passwords in spite of $file"; fi
reload
say changed "$file"
if [ "$(timeout 60 head -n 1)" = keep ]; then
  rm -f "$file.old"
  say kept "$file"
  exit 0
fi
undo
reload
say undone "$file"
exit 1

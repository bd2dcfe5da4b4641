# What provisioning wants to know of a board, as lines of KEY=VALUE; reads only, writes nothing.
# Plain POSIX, for a board that has nothing of ours yet. $1 is the installation's folder, which need
# not be there; $2 is an account's name or nothing. It is sent as an argument, without its comments.
main() {
  LC_ALL=C
  PATH=$PATH:/usr/sbin:/sbin
  export LC_ALL PATH
  echo 'edge-toolchain facts 1'
  say machine "$(uname -m)"
  bits=$(getconf LONG_BIT 2>/dev/null || class /proc/self/exe)
  say bits "$bits"
  say glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>/dev/null | head -n 1 | grep . || loader "$bits")"
  say user "$(id -un)"
  say uid "$(id -u)"
  say home "$HOME"
  if [ -d "$1" ]; then
    cd -- "$1" || return
    root=$(pwd -P)
    say root "$root"
    mode=$(stat -c %a .)
    say mode "$mode"
  else
    case $1 in /*) root=$1;; *) root=$(pwd -P)/$1;; esac
    say root "$root"
    mode=
    say mode ''
    above=$1
    while [ ! -d "$above" ]; do
      case $above in /*/*|[!/]*/*) above=${above%/*};; /*) above=/;; *) above=.;; esac
    done
    cd -- "$above" || return
  fi
  if [ -w . ]; then say writable yes; else say writable no; fi
  say free_kib "$(free_kib)"
  mounts "$(pwd -P)"
  say sudo "$(sudo_kind)"
  for policy in /sys/devices/system/cpu/cpufreq/policy*; do
    [ -r "$policy/scaling_governor" ] || continue
    say policy "$policy|$(cat "$policy/scaling_governor")|$(cat "$policy/scaling_available_governors" 2>/dev/null)"
  done
  gpus
  fpga
  services "$root"
  if [ -n "$mode" ]; then installed; else say record ''; fi
  if [ -d "$root/field" ]; then say class "$(head -c 4096 "$root/field/.board.json" 2>/dev/null | tr -d '\n')"; fi
  if [ -n "$2" ]; then
    say account "$(getent passwd "$2" 2>/dev/null || grep "^$2:" /etc/passwd)"
  fi
  say clock "$(date -u +%s)"
  echo end
}

# 32 or 64: the fifth byte of each program says it.
class() {
  case $(head -c 5 "$1" 2>/dev/null | tail -c 1 | tr '\001\002' 12) in 1) echo 32;; 2) echo 64;; esac
}

# glibc by itself, where neither getconf nor ldd are (Yocto, Buildroot): its loader runs it, and it says its version.
loader() {
  for file in /lib/ld-linux*.so.* /lib64/ld-linux*.so.* /lib/*/ld-linux*.so.* /lib/ld-[0-9]*.so; do
    [ -x "$file" ] && [ "$(class "$file")" = "$1" ] || continue
    for libc in "${file%/*}/libc.so.6" /lib/libc.so.6 /lib64/libc.so.6 /usr/lib/libc.so.6 /lib/*/libc.so.6 /usr/lib/*/libc.so.6; do
      [ -f "$libc" ] && "$file" "$libc" 2>/dev/null | grep '^GNU C Library.* version [0-9]' && return
    done
  done
}

# A df that knows no file system of the folder (in a chroot, on some overlays) prints nothing of use.
free_kib() {
  df -Pk . 2>/dev/null | {
    read -r _
    read -r _ _ _ free _
    case $free in
      ''|*[!0-9]*) stat -f -c '%a %S' . 2>/dev/null | { read -r blocks size && echo "$((blocks / 1024 * size))"; };;
      *) echo "$free";;
    esac
  }
}

# How the file system of folder $1 is mounted, and where else programs could lie: the last mount of the longest folder counts.
mounts() {
  best= how=
  while read -r _ _ _ _ at options _; do
    case $1/ in "${at%/}"/*) if [ ${#at} -ge ${#best} ]; then best=$at how=$options; fi;; esac
    case $at in /proc*|/sys*|/dev*|/run*|/tmp*|/var/tmp*|/boot*) continue;; esac
    case ,$options, in *,noexec,*|*,ro,*) continue;; esac
    if [ -d "$at" ] && [ -w "$at" ]; then say place "$at"; fi
  done 2>/dev/null </proc/self/mountinfo
  case ,$how, in *,noexec,*) say noexec "$best";; esac
  case ,$how, in *,ro,*) say readonly "$best";; esac
}

# Vendors' kernels name it by its address and "gpu"; Mali's own driver leads to it, whatever its name.
gpus() {
  named=' '
  for gpu in /sys/class/devfreq/*gpu* /sys/class/devfreq/*mali* /sys/class/misc/mali0/device/devfreq/*; do
    [ -r "$gpu/governor" ] || continue
    case $named in *" ${gpu##*/} "*) continue;; esac
    named="$named${gpu##*/} "
    say gpu "$gpu|$(cat "$gpu/governor")|$(cat "$gpu/available_governors" 2>/dev/null)"
  done
}

# What loads a design into programmable logic, and which of ours is loaded.
fpga() {
  if [ -e /sys/class/fpga_manager/fpga0/firmware ]; then way=manager
  elif [ -e /dev/xdevcfg ]; then way=xdevcfg
  else return 0; fi
  say fpga "$way|$(head -c 4096 /run/edge-rt/vta-design 2>/dev/null | tr '\n' ';')"
}

# Whether systemd runs here, and the units of this installation that provisioning has finished with.
services() {
  [ -d /run/systemd/system ] || return 0
  say systemd yes
  for unit in /etc/systemd/system/edge-*.service /etc/systemd/system/edge-*.path; do
    [ -f "$unit" ] && read -r first < "$unit" && [ "$first" = "# edge-toolchain $1" ] || continue
    case $(systemctl is-enabled "${unit##*/}" 2>/dev/null) in
      enabled|static) say unit "$(sha256sum < "$unit" | cut -c1-64) ${unit##*/}";;
      *) say unit "unfinished ${unit##*/}";;
    esac
  done
}

installed() {
  for file in bin/* sdk/*/*; do
    if [ -f "$file" ] && [ ! -L "$file" ]; then say file "$(stat -c '%s %Y' "$file") $file"; fi
  done
  for link in edge-rt sdk/current; do
    if [ -L "$link" ]; then say link "$link $(readlink "$link")"; fi
  done
  for entry in bin lib run state sdk fpga edge-rt provisioned.json .edge-rt.* .provisioned.json.* .input.*; do
    if [ -e "$entry" ] || [ -L "$entry" ]; then say entry "$entry"; fi
  done
  say record "$(head -c 65536 provisioned.json 2>/dev/null | tr -d '\n')"
}

say() {
  printf '%s=%s\n' "$1" "$2"
}

sudo_kind() {
  if [ "$(id -u)" = 0 ]; then echo root
  elif ! command -v sudo >/dev/null 2>&1; then echo none
  elif said=$(sudo -n true 2>&1); then echo free
  else
    case $said in *'must have a tty'*) echo terminal;; *) echo password;; esac
  fi
}

main "$1" "$2" </dev/null

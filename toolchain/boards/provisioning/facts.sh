# What provisioning wants to know of a board, as lines of KEY=VALUE; reads only, writes nothing.
# Plain POSIX, for a board that has nothing of ours yet. $1 is the installation's folder, which need
# not be there; $2 is an account's name or nothing. All of it is one function, so that a script that was cut
# off on its way does nothing, and no command can read the rest of it as its input.
main() {
  LC_ALL=C
  PATH=$PATH:/usr/sbin:/sbin
  export LC_ALL PATH
  echo 'edge-toolchain facts 1'
  say machine "$(uname -m)"
  say bits "$(getconf LONG_BIT 2>/dev/null)"
  say glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>/dev/null | head -n 1)"
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
  say free_kib "$(df -Pk . | { read -r _; read -r _ _ _ free _; echo "$free"; })"
  say sudo "$(sudo_kind)"
  for policy in /sys/devices/system/cpu/cpufreq/policy*; do
    [ -r "$policy/scaling_governor" ] || continue
    say policy "$policy|$(cat "$policy/scaling_governor")|$(cat "$policy/scaling_available_governors" 2>/dev/null)"
  done
  gpus
  fpga
  services "$root"
  if [ -n "$mode" ]; then installed; else say record ''; fi
  if [ -n "$2" ]; then
    say account "$(getent passwd "$2" 2>/dev/null || grep "^$2:" /etc/passwd)"
  fi
  say clock "$(date -u +%s)"
  echo end
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
  for entry in bin lib run state sdk fpga edge-rt provisioned.json .edge-rt.* .provisioned.json.*; do
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
  elif sudo -n true >/dev/null 2>&1; then echo free
  else echo password
  fi
}

main "$1" "$2" </dev/null

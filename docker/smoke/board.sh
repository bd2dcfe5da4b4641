# board.sh MACHINE, by bash: programs of an emulated board's system run, and its SSH server speaks.
set -eu
here=$(uname -m)
[ "$here" = "$1" ] || { echo "uname says '$here', expected '$1'"; exit 1; }
echo "ok: uname says $here"
python3 -c 'import ssl, ctypes' # what Python finds through the C library
echo "ok: Python starts"
[ -u /usr/bin/sudo ] && [ -x /usr/lib/openssh/sftp-server ]
echo "ok: sudo and the SFTP server are there"

ssh-keygen -q -t ed25519 -N "" -f /tmp/key
/usr/sbin/sshd -D -e -p 2222 -o HostKey=/tmp/key -o ListenAddress=127.0.0.1 2>/tmp/log &
left=300 # tenths of a second
until { exec 3<>/dev/tcp/127.0.0.1/2222; } 2>/dev/null; do
    left=$((left - 1))
    kill -0 $! 2>/dev/null && [ $left -gt 0 ] || { cat /tmp/log; echo "sshd does not listen"; exit 1; }
    sleep 0.1
done
read -r -t 30 banner <&3 || { cat /tmp/log; echo "sshd says nothing"; exit 1; }
case $banner in
    SSH-2.0-*) echo "ok: sshd says ${banner%$'\r'}" ;;
    *) echo "sshd says '$banner'"; exit 1 ;;
esac

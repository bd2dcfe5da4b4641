"""The files of an emulated board's system.

The packages are unpacked, not installed: their scripts do not run, since under emulation that would take
minutes. `FILES` and `LINKS` replace what a board needs of the scripts' results.
"""

from __future__ import annotations

USER = "edge"
USER_ID = 1000
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"

SUITE = "bookworm"
PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "findutils", "grep", "gzip", "hostname"),
    *("libc-bin", "libpam-modules", "login", "mawk", "netbase", "passwd", "sed", "tar", "util-linux"),
    *("iproute2", "openssh-server", "openssh-sftp-server", "procps", "python3", "sudo"),
)
# Paths to leave out: replaced below, specific to this host, or useless on a board.
DROPPED = (
    *("dev/", "etc/hostname", "etc/resolv.conf", "var/cache/", "var/lib/apt/", "var/log/apt/"),
    *("var/run", "var/lock", "usr/share/doc/", "usr/share/locale/", "usr/share/man/", "usr/share/info/"),
    *("usr/share/lintian/", "usr/share/bash-completion/", "usr/share/pixmaps/"),
)
LINKS = {
    "var/run": "/run",
    "var/lock": "/run/lock",
    "usr/bin/awk": "mawk",
    "usr/bin/which": "which.debianutils",
}
FOLDERS = {  # permissions, owner
    "run/sshd": (0o755, 0),
    "run/lock": (0o1777, 0),
    f"home/{USER}": (0o755, USER_ID),
}
FILES = {  # permissions, content
    "etc/passwd": (
        0o644,
        "root:x:0:0:root:/root:/bin/bash\n"
        "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
        "sshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        f"{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/bash\n",
    ),
    "etc/group": (
        0o644,
        "root:x:0:\ndaemon:x:1:\ntty:x:5:\nsudo:x:27:\nshadow:x:42:\nutmp:x:43:\nvideo:x:44:\n"
        f"staff:x:50:\nusers:x:100:\nnogroup:x:65534:\n{USER}:x:{USER_ID}:\n",
    ),
    # `*`: no password fits; `!` would lock the account, and sshd without PAM refuses locked ones.
    "etc/shadow": (0o640, "".join(f"{n}:*:19518:0:99999:7:::\n" for n in ("root", "sshd", "nobody", USER))),
    "etc/shells": (0o644, "/bin/sh\n/bin/bash\n"),
    "etc/nsswitch.conf": (0o644, "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"),
    "etc/profile": (0o644, "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin\n"),
    "etc/pam.d/common-auth": (0o644, "auth required pam_unix.so\n"),
    "etc/pam.d/common-account": (0o644, "account required pam_unix.so\n"),
    "etc/pam.d/common-password": (0o644, "password required pam_unix.so\n"),
    "etc/pam.d/common-session": (0o644, "session required pam_unix.so\n"),
    "etc/pam.d/common-session-noninteractive": (0o644, "session required pam_unix.so\n"),
    "etc/ssh/sshd_config": (
        0o644,
        f"HostKey {HOST_KEY}\n"
        "Include /etc/ssh/sshd_config.d/*.conf\n"
        "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin no\n"
        "PrintMotd no\nUseDNS no\nX11Forwarding no\n"
        # An unclean disconnect must not hold a forwarded port for long.
        "ClientAliveInterval 5\nClientAliveCountMax 3\n"
        "Subsystem sftp /usr/lib/openssh/sftp-server\n",
    ),
    "usr/local/sbin/board": (
        0o755,
        "#!/bin/sh\nset -eu\n"
        f'[ -s {HOST_KEY} ] || ssh-keygen -q -t ed25519 -N "" -C "$(hostname)" -f {HOST_KEY}\n'
        "exec /usr/sbin/sshd -D -e\n",
    ),
}
COMMAND = ("/usr/local/sbin/board",)

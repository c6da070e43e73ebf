"""An RTSP server for tests. Run by the system's Python, which has GStreamer's bindings.

Prints its port when it serves; serves until its standard input is closed.
"""

import argparse
import sys
from importlib import import_module
from typing import Any

gi: Any = import_module("gi")
gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
GLib: Any = import_module("gi.repository.GLib")
Gst: Any = import_module("gi.repository.Gst")
GstRtspServer: Any = import_module("gi.repository.GstRtspServer")

ENCODERS = {
    "h264": "x264enc tune=zerolatency speed-preset=ultrafast key-int-max={gop}"
    " bframes={b_frames} ! video/x-h264,profile={profile}"
    " ! rtph264pay name=pay0 pt=96 config-interval={config}",
    "h265": "x265enc tune=zerolatency speed-preset=ultrafast key-int-max={gop}"
    " ! rtph265pay name=pay0 pt=96 config-interval={config}",
    "jpeg": "jpegenc ! rtpjpegpay name=pay0 pt=26",
}


def main() -> None:
    """Serve until standard input is closed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--codec", default="h264", choices=ENCODERS)
    parser.add_argument("--pattern", default="ball")
    parser.add_argument("--gop", type=int, default=10)
    parser.add_argument("--b-frames", type=int, default=0)
    parser.add_argument("--config", type=int, default=-1)
    parser.add_argument("--fps", type=int, default=20)
    parser.add_argument("--size", default="320x240")
    parser.add_argument("--user", default="")
    parser.add_argument("--frames", type=int, default=-1)
    args = parser.parse_args()
    Gst.init(None)
    width, height = args.size.split("x")
    tune = "" if not args.b_frames else " b-adapt=false"
    encoder = ENCODERS[args.codec].format(
        gop=args.gop,
        b_frames=args.b_frames,
        config=args.config,
        profile="main" if args.b_frames else "constrained-baseline",
    )
    if args.b_frames:
        encoder = encoder.replace("tune=zerolatency ", "")
        encoder = encoder.replace("x264enc", f"x264enc{tune}")
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(
        f"( videotestsrc is-live=true pattern={args.pattern}"
        f" num-buffers={args.frames}"
        f" ! video/x-raw,format=I420,width={width},height={height},"
        f"framerate={args.fps}/1 ! {encoder} )"
    )
    factory.set_shared(True)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(str(args.port))
    if args.user:
        _ask_for(args.user, server, factory)
    server.get_mount_points().add_factory("/live", factory)
    server.attach(None)
    loop = GLib.MainLoop()

    def leave(source: object, condition: object) -> bool:
        loop.quit()
        return False

    GLib.io_add_watch(sys.stdin.fileno(), GLib.PRIORITY_DEFAULT, GLib.IO_HUP, leave)
    sys.stdout.write(f"{server.get_bound_port()}\n")
    sys.stdout.flush()
    loop.run()


def _ask_for(user: str, server: Any, factory: Any) -> None:
    """Let in only who knows ``name:password``."""
    name, _, password = user.partition(":")
    auth = GstRtspServer.RTSPAuth()
    token = GstRtspServer.RTSPToken()
    token.set_string("media.factory.role", "user")
    auth.add_basic(GstRtspServer.RTSPAuth.make_basic(name, password), token)
    server.set_auth(auth)
    permissions = GstRtspServer.RTSPPermissions()
    permissions.add_permission_for_role("user", "media.factory.access", True)
    permissions.add_permission_for_role("user", "media.factory.construct", True)
    factory.set_permissions(permissions)


if __name__ == "__main__":
    main()

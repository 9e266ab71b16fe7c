"""`torchlint server`: findings and fixes in an editor, while you type."""

from __future__ import annotations

import click

from torchlint.addresses import SITE
from torchlint.cli.errors import UserError
from torchlint.cli.options import HELP


def _address(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """`HOST:PORT` as a pair."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{value!r} is not HOST:PORT, as in 127.0.0.1:9257")
    return host, int(port)


@click.command(context_settings=HELP, epilog=f"Set up your editor: {SITE}/guides/editors/")
@click.option("--stdio", is_flag=True, help="Use standard input and output. This is the default.")
@click.option(
    "--tcp", callback=_address, metavar="HOST:PORT", help="Wait for one client at this address instead of --stdio."
)
def server(stdio: bool, tcp: tuple[str, int] | None) -> None:
    """Run the language server, which an editor starts."""
    if stdio and tcp:
        raise click.UsageError("--stdio and --tcp exclude each other")
    from torchlint.server.installation import MISSING, is_installed

    if not is_installed():
        raise UserError(MISSING)
    from torchlint.server import features

    if tcp:
        features.serve_tcp(*tcp)
    else:
        features.serve_stdio()

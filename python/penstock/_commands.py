"""The commands shardprep and loadbench: this process becomes the program that the package brings along."""
import os
import pathlib
import sys


def _become(name: str) -> None:
    program = pathlib.Path(__file__).parent / "bin" / name
    os.execv(program, [name, *sys.argv[1:]])


def shardprep() -> None:
    _become("shardprep")


def loadbench() -> None:
    _become("loadbench")

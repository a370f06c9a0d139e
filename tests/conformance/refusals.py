"""Which pictures may be refused: those that the references do not give whole either, and those of kinds that we leave out."""
import re

# What libjpeg-turbo says where pixels are missing or made up. Its other warnings touch none.
DAMAGE = re.compile("Premature end of JPEG|premature end of data segment|bad Huffman code|extraneous bytes before marker 0xd9"
                    "|found marker 0x.. instead of RST|inconsistent progression")
# What Penstock leaves out (a part of what pack says), and why.
LEFT_OUT = {
    "SOF type 0xc3": "lossless JPEG, which Debian's libjpeg-turbo does not read",
    "at most 268435456 pixels": "a picture may have 2^28 pixels",
    "no scan has": "scans are missing, which libjpeg-turbo fills up with grey without a warning",
}


def left_out(message, data):
    if "PNG: end of stream" in message and b"IEND" not in data[-64:]:
        return "the file ends before its chunk IEND"
    return next((why for kind, why in LEFT_OUT.items() if kind in message), "")


def shared(pillow_error, djpeg_warnings):
    """Why the references do not have the picture either; "" if they have it. `pillow_error` is what Pillow throws, "" if it
    gives pixels; `djpeg_warnings` those about a JPEG."""
    if pillow_error:
        return f"Pillow refuses it too: {pillow_error}"
    damage = DAMAGE.search(djpeg_warnings)
    return f"pixels are missing: djpeg says {damage[0]}" if damage else ""

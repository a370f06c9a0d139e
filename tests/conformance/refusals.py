"""Which pictures may be refused: those that the references do not give whole either, and those of kinds that we leave out."""
import re

# What libjpeg-turbo says where pixels are missing or made up. Its other warnings touch none.
DAMAGE = re.compile("Premature end of JPEG|premature end of data segment|bad Huffman code|extraneous bytes before marker"
                    "|found marker 0x.. instead of RST|Unsupported marker|inconsistent progression|Bogus")
# Kinds that Penstock leaves out (message of pack), and why.
LEFT_OUT = {
    "arithmetic coding": "no camera and no browser writes it",
    "lossless": "a predictive code, without DCT",
    "precision is 12": "12 bits per level; libjpeg-turbo reads these in a library of its own",
    "2 components": "there is no picture model of two channels",
    "no scan has": "scans are missing, which libjpeg-turbo fills up with grey without a warning",
}


def reason(message, pillow_error, djpeg_warnings):
    """Why it is right to refuse a picture; "" if it is not. `message` is what pack says; `pillow_error` what Pillow throws,
    "" if it gives pixels; `djpeg_warnings` those about a JPEG."""
    for kind, why in LEFT_OUT.items():
        if kind in message:
            return f"{kind}: {why}"
    if pillow_error:
        return f"Pillow refuses it too: {pillow_error}"
    damage = DAMAGE.search(djpeg_warnings)
    return f"pixels are missing: {damage[0]}" if damage else ""

"""The markers of a JPEG file."""

SCAN, END, RESTART_INTERVAL = 0xDA, 0xD9, 0xDD
FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}


def segments(data):
    """(marker, content) of each segment up to EOI, also of those after a scan. Skips what is no segment."""
    at = 2
    while (at := data.find(b"\xff", at)) >= 0 and at + 1 < len(data):
        marker = data[at + 1]
        if marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD8:
            at += 1 if marker == 0xFF else 2
            continue
        if marker == END:
            return
        length = int.from_bytes(data[at + 2:at + 4], "big")
        yield marker, data[at + 4:at + 2 + length]
        at += 2 + length


def component_count(data):
    """That of the first frame; 0 if there is none."""
    return next((content[5] for marker, content in segments(data) if marker in FRAMES and len(content) > 5), 0)


def is_arithmetic(data):
    return any(0xC9 <= marker <= 0xCF and marker in FRAMES for marker, _ in segments(data))


def is_plain(data):
    """Whether pack has to give this JPEG back byte for byte, without --transcode off: 8 bits, sequential, Huffman-coded,
    1 or 3 components whose sampling factors divide the greatest one, in one scan without restart markers."""
    found = list(segments(data))
    frames = [(marker, content) for marker, content in found if marker in FRAMES]
    if len(frames) != 1 or frames[0][0] not in (0xC0, 0xC1) or sum(marker == SCAN for marker, _ in found) != 1:
        return False
    if any(marker == RESTART_INTERVAL and any(content[:2]) for marker, content in found):
        return False
    frame = frames[0][1]
    factors = [frame[7 + 3 * i] for i in range(frame[5])]
    return (frame[0] == 8 and len(factors) in (1, 3)
            and all(max(f >> 4 for f in factors) % (f >> 4) == 0 and max(f & 15 for f in factors) % (f & 15) == 0
                    for f in factors))

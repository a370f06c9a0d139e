// Local fingerprint: whether a source's files are the very ones that were packed before.
#pragma once

#include <string>

namespace penstock {

class Source;

/// Source::fingerprint() with what no program can put back: the inode of each file, and when anything of it has last
/// changed. It differs between copies of a data set, which may be packed in parts by several machines, and changes
/// where two folders whose files have equal sizes and times are exchanged.
std::string local_fingerprint(const Source& source);

}  // namespace penstock

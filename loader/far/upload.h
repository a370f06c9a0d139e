// Upload: whole files to S3 and Google's storage, in spite of what networks and services do.
#pragma once

#include <filesystem>
#include <string>

#include "loader/far/origin.h"
#include "loader/files/files.h"

namespace penstock::detail {

/// Makes the object at `address` of `file`, with facts.xxh3 as x-amz-meta-xxh3. Up to 8 MiB are sent by one PUT, more
/// as a multipart upload in parts of 8 MiB (of more where there would be over 10,000), which is aborted if it fails.
/// Its id is in `notes`/<name of the object>.upload meanwhile, for abort_uploads(). The signature covers the SHA-256 of
/// every request's body, so that a service refuses what has changed on its way. S3 gets the crc32c of each body as
/// well, and keeps it. Then the object is looked at: it must have the size that was sent, and the crc32c if the service
/// states one; otherwise it is sent again, once.
///
/// Each request has a turn of the limit of requests (limiter.h), is tried again by the rules of retry.h, for
/// PENSTOCK_RETRY_TIMEOUT or AWS_MAX_ATTEMPTS, and is given up within 100 ms when its thread is interrupted
/// (loader/files/interrupt.h).
/// Memory: two parts. Errors: io_error where that was not enough, and for a bucket that is not there; config_error
/// where a service refuses. Thread-safety: any thread.
void upload(Origin& origin, const std::string& address, const std::filesystem::path& file, const FileFacts& facts,
            const std::filesystem::path& notes);

/// Aborts the multipart uploads to objects in `folder`, an address, of which there are notes. Each is tried once: where
/// it does not succeed, the note stays. Requires that none of them is under way.
void abort_uploads(Origin& origin, const std::string& folder, const std::filesystem::path& notes);

/// Whether upload() has made such an object: of this size, with this xxh3.
bool is_uploaded(Origin& origin, const std::string& address, const FileFacts& facts);

/// Removes an object; one that is not there is fine.
void remove_object(Origin& origin, const std::string& address);

}  // namespace penstock::detail

module;
#include <unistd.h>
#include <zlib.h>
#include <cerrno>
// The idx format.
module lamina:io.idx.impl;
import :core;
import :dtype;
import :io;
import :io.file.impl;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

using detail::file_failure;

// Deflate expands one byte to at most 1032.
constexpr std::int64_t largest_ratio = 1032;

/// A file, decompressed if it is gzip.
class byte_source {
 public:
  explicit byte_source(const std::string& path) : path_(path) {
    detail::descriptor file(detail::open_for_reading(path, size_));
    stream_ = ::gzdopen(file.number, "rb");
    if (!stream_) detail::system_failure(path, "cannot be read", ENOMEM);
    file.give_up();
  }
  byte_source(const byte_source&) = delete;
  byte_source& operator=(const byte_source&) = delete;
  ~byte_source() { ::gzclose(stream_); }

  /// Reads up to `bytes` bytes; fewer only at the end of the file.
  std::size_t read(void* to, std::size_t bytes) {
    std::size_t done = 0;
    while (done < bytes) {
      auto part = std::min(bytes - done, std::size_t(1) << 24);
      int n = ::gzread(stream_, static_cast<char*>(to) + done, static_cast<unsigned>(part));
      if (n < 0) broken();
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    // A truncated compressed stream shows in the stream's state, not as a short read.
    int state = Z_OK;
    ::gzerror(stream_, &state);
    if (state != Z_OK && state != Z_STREAM_END) broken();
    return done;
  }
  bool compressed() const { return ::gzdirect(stream_) == 0; }
  std::int64_t size() const { return size_; }

 private:
  [[noreturn]] void broken() {
    int state = Z_OK;
    const char* message = ::gzerror(stream_, &state);
    if (state == Z_ERRNO) detail::system_failure(path_, "cannot be read", errno);
    // Removes zlib's `<fd:N>` prefix: the stream was opened by descriptor.
    std::string_view reason = message;
    if (auto colon = reason.find(">: "); reason.starts_with("<fd:") && colon != reason.npos)
      reason.remove_prefix(colon + 3);
    text t;
    if (state == Z_BUF_ERROR) t << "the compressed data ends too early (is the file truncated?)";
    else t << "the compressed data is damaged: " << reason;
    file_failure(path_, t);
  }
  std::string path_;
  std::int64_t size_ = 0;
  gzFile stream_ = nullptr;
};

dtype element_of(const std::string& path, unsigned code) {
  switch (code) {
    case 8: return dtype::uint8;
    case 9: return dtype::int8;
    case 11: return dtype::int16;
    case 12: return dtype::int32;
    case 13: return dtype::float32;
    case 14: return dtype::float64;
    default: break;
  }
  text t;
  t << "magic number: expected element type 8, 9, 11, 12, 13 or 14; got " << code;
  file_failure(path, t);
}

void swap_bytes(std::byte* data, std::size_t count, std::size_t size) {
  for (std::size_t i = 0; i < count; ++i) std::reverse(data + i * size, data + (i + 1) * size);
}

}  // namespace

any_tensor read_idx(const std::string& path) {
  byte_source in(path);
  unsigned char magic[4];
  if (auto n = in.read(magic, 4); n != 4) {
    text t;
    t << "magic number: expected 4 bytes; the file has " << n;
    file_failure(path, t);
  }
  if (magic[0] || magic[1]) {
    text t;
    t << "magic number: expected two zero bytes; got " << int(magic[0]) << ' ' << int(magic[1])
      << " (not an idx file?)";
    file_failure(path, t);
  }
  tensor_type type{element_of(path, magic[2]), {}};
  int rank = magic[3];
  if (rank < 1 || rank > max_rank) {
    text t;
    t << "magic number: expected rank 1.." << max_rank << "; got " << rank;
    file_failure(path, t);
  }

  std::vector<std::int64_t> extents;
  for (int i = 0; i < rank; ++i) {
    unsigned char b[4];
    if (in.read(b, 4) != 4) {
      text t;
      t << "extent " << i << ": the file ends inside its header (is it truncated?)";
      file_failure(path, t);
    }
    extents.push_back(std::int64_t(b[0]) << 24 | std::int64_t(b[1]) << 16 | std::int64_t(b[2]) << 8 |
                      std::int64_t(b[3]));
  }
  type.dims = shape::of(extents);
  auto bytes = detail::checked_bytes(extents, size_of(type.element));
  if (bytes < 0) {
    text t;
    t << "extents: " << type.dims << " has more elements than memory can hold";
    file_failure(path, t);
  }
  std::int64_t header = 4 + 4 * rank, max = in.compressed() ? in.size() * largest_ratio : in.size() - header;
  if (bytes > max) {
    text t;
    t << "elements: expected " << bytes << " bytes for " << type << "; got at most " << max << " from a file of "
      << in.size() << " bytes (is it truncated?)";
    file_failure(path, t);
  }

  any_tensor result(storage(static_cast<std::size_t>(bytes)), type);
  if (auto n = in.read(result.mutable_data(), static_cast<std::size_t>(bytes)); static_cast<std::int64_t>(n) != bytes) {
    text t;
    t << "elements: expected " << bytes << " bytes for " << type << "; got " << n << " (is it truncated?)";
    file_failure(path, t);
  }
  char beyond;
  if (in.read(&beyond, 1) != 0) {
    text t;
    t << "elements: expected " << bytes << " bytes for " << type << "; got more";
    file_failure(path, t);
  }
  if constexpr (std::endian::native == std::endian::little)
    swap_bytes(result.mutable_data(), static_cast<std::size_t>(type.dims.size()), size_of(type.element));
  return result;
}

}  // namespace lamina
